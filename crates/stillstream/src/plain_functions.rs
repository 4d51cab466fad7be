//! Functions without keyed state that see time and have side outputs.

use std::sync::Arc;

use stillstream_state::Data;
use stillstream_types::Result;

use crate::data_stream::DataStream;
use crate::functions::ProcessContext;
use crate::graph::NodeSpec;
use crate::operators::plain_process::PlainProcess;
use crate::side_output::{OutputTag, Sides};

impl<T: Data> DataStream<T> {
    /// Any number of records out for each record in, with event time, watermark and side outputs.
    ///
    /// ```
    /// use stillstream::prelude::*;
    /// const LATE: OutputTag<u64> = OutputTag::new("late");
    ///
    /// let env = StreamExecutionEnvironment::new();
    /// let on_time = env.from_collection(0..10u64).process(|n, ctx| {
    ///     match ctx.timestamp() {
    ///         Some(at) if at <= ctx.watermark() => ctx.side(&LATE, n)?,
    ///         _ => ctx.emit(n),
    ///     }
    ///     Ok(())
    /// });
    /// let late = on_time.side_output(&LATE);
    /// # let _ = late;
    /// ```
    pub fn process<U: Data>(
        &self,
        f: impl Fn(T, &mut ProcessContext<'_, U>) -> Result<()> + Send + Sync + 'static,
    ) -> DataStream<U> {
        let (f, sides) = (Arc::new(f), Sides::new());
        self.operator(NodeSpec::stateless("process").with_sides(sides.clone()), move || {
            Ok(PlainProcess::<T, U, _>::new(f.clone(), sides.clone()))
        })
    }

    /// Moves the records for which `f` is true into a side output; the others go on.
    ///
    /// ```
    /// # use stillstream::prelude::*;
    /// const ODD: OutputTag<u64> = OutputTag::new("odd");
    /// # let env = StreamExecutionEnvironment::new();
    /// let even = env.from_collection(0..10u64).split_off(&ODD, |n| n % 2 == 1);
    /// let odd = even.side_output(&ODD);
    /// # let _ = odd;
    /// ```
    pub fn split_off(
        &self,
        tag: &OutputTag<T>,
        f: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> DataStream<T> {
        let tag = *tag;
        self.process(move |record, ctx| {
            if f(&record) {
                return ctx.side(&tag, record);
            }
            ctx.emit(record);
            Ok(())
        })
        .name("split_off")
    }
}
