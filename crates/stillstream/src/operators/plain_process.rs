//! The operator under [`DataStream::process`](crate::DataStream::process).

use std::marker::PhantomData;
use std::sync::Arc;

use stillstream_runtime::clock::Clock;
use stillstream_runtime::{AnyBatch, Batch, OpenContext, Operator, Output};
use stillstream_state::Data;
use stillstream_types::{Error, ErrorKind, Result, Timestamp};

use crate::collector::Collector;
use crate::functions::ProcessContext;
use crate::side_output::{SideCollectors, Sides};

pub(crate) struct PlainProcess<T, U, F> {
    f: Arc<F>,
    sides: Sides,
    opened: Option<(SideCollectors, Arc<dyn Clock>)>,
    out: Collector<U>,
    watermark: Timestamp,
    types: PhantomData<fn(T)>,
}

impl<T, U, F> PlainProcess<T, U, F> {
    pub fn new(f: Arc<F>, sides: Sides) -> Self {
        Self {
            f,
            sides,
            opened: None,
            out: Collector::default(),
            watermark: Timestamp::MIN,
            types: PhantomData,
        }
    }
}

impl<T, U, F> Operator for PlainProcess<T, U, F>
where
    T: Data,
    U: Data,
    F: Fn(T, &mut ProcessContext<'_, U>) -> Result<()> + Send + Sync + 'static,
{
    fn open(&mut self, context: &mut OpenContext) -> Result<()> {
        self.opened = Some((self.sides.open(), context.clock.clone()));
        Ok(())
    }

    fn process(&mut self, _: usize, batch: AnyBatch, out: &mut Output) -> Result<()> {
        let Some((sides, clock)) = &mut self.opened else {
            return Err(Error::new(ErrorKind::Plan, "the operator is not open"));
        };
        let Batch { values, times, .. } = batch.take::<T>()?;
        let now_ms = clock.now_ms();
        for (i, record) in values.into_iter().enumerate() {
            let (time, watermark) = (times.get(i).copied(), self.watermark);
            (self.f)(record, &mut ProcessContext { time, watermark, now_ms, out: &mut self.out, sides })?;
        }
        self.out.flush(out);
        sides.flush(out);
        Ok(())
    }

    fn watermark(&mut self, watermark: Timestamp, out: &mut Output) -> Result<()> {
        self.watermark = watermark;
        out.watermark(watermark);
        Ok(())
    }
}
