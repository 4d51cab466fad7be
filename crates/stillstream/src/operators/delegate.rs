//! Operators around an operator: what they do not change goes to the one inside.

/// The methods of an operator that one around another changes least often, handed on to the field of that
/// name.
macro_rules! delegate_rest {
    ($inner:ident) => {
        fn open(&mut self, context: &mut stillstream_runtime::OpenContext) -> stillstream_types::Result<()> {
            self.$inner.open(context)
        }

        fn idle(
            &mut self,
            idle: bool,
            out: &mut stillstream_runtime::Output,
        ) -> stillstream_types::Result<()> {
            self.$inner.idle(idle, out)
        }

        fn ready(&mut self, out: &mut stillstream_runtime::Output) -> stillstream_types::Result<bool> {
            self.$inner.ready(out)
        }

        fn snapshot(
            &mut self,
            id: stillstream_types::CheckpointId,
            form: stillstream_types::SnapshotForm,
        ) -> stillstream_types::Result<Option<stillstream_runtime::AsyncSnapshot>> {
            self.$inner.snapshot(id, form)
        }

        fn checkpoint_complete(
            &mut self,
            id: stillstream_types::CheckpointId,
        ) -> stillstream_types::Result<()> {
            self.$inner.checkpoint_complete(id)
        }

        fn checkpoint_aborted(
            &mut self,
            id: stillstream_types::CheckpointId,
        ) -> stillstream_types::Result<()> {
            self.$inner.checkpoint_aborted(id)
        }

        fn finish(&mut self) -> stillstream_types::Result<()> {
            self.$inner.finish()
        }
    };
}
pub(crate) use delegate_rest;
