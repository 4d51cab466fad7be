//! A chain's part in checkpoints, and its last step.

use std::sync::Arc;

use stillstream_types::crash::crash_point;
use stillstream_types::{CheckpointId, OperatorId, Result, SnapshotForm};

use super::{Body, Chain, name_error};
use crate::operator::AsyncSnapshot;
use crate::panics::catch;

impl Chain {
    /// The synchronous part of a checkpoint, of all operators.
    pub fn snapshot(
        &mut self,
        id: CheckpointId,
        form: SnapshotForm,
    ) -> Result<Vec<(OperatorId, Arc<str>, AsyncSnapshot)>> {
        let mut parts = Vec::new();
        for link in &mut self.links {
            let part = catch("its snapshot", || match &mut link.body {
                Body::Operator(operator) => operator.snapshot(id, form),
                Body::Source(source) => source.snapshot(id, form),
            });
            if let Some(part) = part.map_err(|error| name_error(&link.name, error))? {
                parts.push((link.id, link.name.clone(), part));
            }
        }
        Ok(parts)
    }

    fn each(&mut self, what: &str, mut f: impl FnMut(&mut Body) -> Result<()>) -> Result<()> {
        for link in &mut self.links {
            catch(what, || f(&mut link.body)).map_err(|error| name_error(&link.name, error))?;
        }
        Ok(())
    }

    pub fn checkpoint_complete(&mut self, id: CheckpointId) -> Result<()> {
        crash_point("before-commit")?;
        self.each("its commit", |body| match body {
            Body::Operator(operator) => operator.checkpoint_complete(id),
            Body::Source(source) => source.checkpoint_complete(id),
        })
    }

    /// See [`Operator::commits_under_way`](crate::operator::Operator::commits_under_way): the oldest one of
    /// all operators.
    pub fn commits_under_way(&mut self) -> Result<Option<CheckpointId>> {
        let mut oldest: Option<CheckpointId> = None;
        self.each("its commit", |body| {
            if let Body::Operator(operator) = body {
                let own = operator.commits_under_way()?;
                oldest = own.map(|own| oldest.map_or(own, |oldest| oldest.min(own))).or(oldest);
            }
            Ok(())
        })?;
        Ok(oldest)
    }

    pub fn checkpoint_aborted(&mut self, id: CheckpointId) -> Result<()> {
        self.each("its code", |body| match body {
            Body::Operator(operator) => operator.checkpoint_aborted(id),
            Body::Source(_) => Ok(()),
        })
    }

    pub fn finish(&mut self) -> Result<()> {
        self.each("its last step", |body| match body {
            Body::Operator(operator) => operator.finish(),
            Body::Source(_) => Ok(()),
        })
    }
}
