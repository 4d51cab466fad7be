//! Asynchronous requests: a future for each record, many under way at once, and no worker that waits.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use stillstream_runtime::requests::{Attempt, RetryDelays, Retryable};
use stillstream_state::Data;
use stillstream_types::{Error, Result};

use crate::data_stream::DataStream;
use crate::functions::RuntimeContext;
use crate::graph::NodeSpec;
use crate::operators::async_io::{AsyncOperator, Order};

/// Flink's default, and that of most who use it.
const CAPACITY: usize = 100;

/// How a request that failed is made again; see [`AsyncStream::retry`].
///
/// ```
/// use stillstream::prelude::*;
/// // after 100, 200, 400, 800 and 1000 ms, and only what another try can change
/// let retry = AsyncRetry::exponential(5, millis(100), seconds(1))
///     .only_if(|error| error.kind() == ErrorKind::Connector);
/// # let _ = retry;
/// ```
#[derive(Clone)]
pub struct AsyncRetry {
    delays: RetryDelays,
    only_if: Option<Retryable>,
}

impl fmt::Debug for AsyncRetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncRetry").field("delays", &self.delays).finish_non_exhaustive()
    }
}

impl AsyncRetry {
    /// Makes a request again up to `retries` times, each time after `delay`.
    pub fn fixed_delay(retries: u32, delay: Duration) -> Self {
        Self::exponential(retries, delay, delay)
    }

    /// Makes a request again up to `retries` times: first after `first`, and then after twice the time each,
    /// up to `longest`.
    pub fn exponential(retries: u32, first: Duration, longest: Duration) -> Self {
        Self { delays: RetryDelays { retries, first, longest }, only_if: None }
    }

    /// Only after errors for which `f` is true. A panic is never tried again.
    pub fn only_if(mut self, f: impl Fn(&Error) -> bool + Send + Sync + 'static) -> Self {
        self.only_if = Some(Arc::new(f));
        self
    }
}

/// What is emitted for a record whose request took too long.
type OnTimeout<T, U> = Arc<dyn Fn(T) -> Result<Vec<U>> + Send + Sync>;

/// Makes the future of one try.
pub(crate) type Ask<T, U> = Arc<dyn Fn(T) -> Attempt<Vec<U>> + Send + Sync>;

/// Makes what asks in one parallel instance.
type OpenAsk<T, U> = dyn Fn(&RuntimeContext) -> Result<Ask<T, U>> + Send + Sync;

/// What one asynchronous operator does.
pub(crate) struct AsyncSettings<T, U> {
    /// Makes what asks in one parallel instance.
    pub open: Arc<OpenAsk<T, U>>,
    pub capacity: usize,
    pub timeout: Option<Duration>,
    pub on_timeout: Option<OnTimeout<T, U>>,
    pub delays: RetryDelays,
    pub retryable: Option<Retryable>,
}

impl<T, U> Clone for AsyncSettings<T, U> {
    fn clone(&self) -> Self {
        Self {
            open: self.open.clone(),
            capacity: self.capacity,
            timeout: self.timeout,
            on_timeout: self.on_timeout.clone(),
            delays: self.delays,
            retryable: self.retryable.clone(),
        }
    }
}

impl<T: Data> DataStream<T> {
    /// Asks another system for each record, without waiting for one answer before the next question. `f`
    /// makes a future that is run on the process's Tokio runtime; what it returns is one record out. Flink's
    /// `AsyncDataStream`.
    ///
    /// What follows says [how many](AsyncStream::capacity) may be under way, [how long](AsyncStream::timeout)
    /// each may take, and [whether it is tried again](AsyncStream::retry). The last call says in which order
    /// answers go on: [`ordered`](AsyncStream::ordered) or [`unordered`](AsyncStream::unordered).
    ///
    /// Records that are under way are part of each checkpoint. After a restore they are asked for again, so
    /// the other system can be asked twice; each answer goes on once all the same. A barrier waits for no
    /// answer.
    ///
    /// `f` runs inside a Tokio runtime, so that clients which need one (timers, sockets) work. An error or a
    /// panic fails the job, which then restarts by its restart strategy.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// # async fn name_of(user: u64) -> Result<String> { Ok(format!("user {user}")) }
    /// let env = StreamExecutionEnvironment::new();
    /// let names = env
    ///     .from_collection(1..=3u64)
    ///     .async_map(|user| async move { Ok((user, name_of(user).await?)) })
    ///     .capacity(1_000)
    ///     .timeout(seconds(5))
    ///     .on_timeout(|user| Ok((user, "unknown".to_string())))
    ///     .retry(AsyncRetry::fixed_delay(3, millis(100)))
    ///     .ordered()
    ///     .uid("names")
    ///     .collect();
    /// env.execute("names")?;
    /// assert_eq!(names.items()[0], (1, "user 1".to_string()));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn async_map<U: Data, Fut>(&self, f: impl Fn(T) -> Fut + Send + Sync + 'static) -> AsyncStream<T, U>
    where
        Fut: Future<Output = Result<U>> + Send + 'static,
    {
        self.asking("async_map", move |record| {
            let answer = f(record);
            Box::pin(async move { answer.await.map(|value| vec![value]) })
        })
    }

    /// Like [`async_map`](Self::async_map), with any number of records out for each record in: a vector, an
    /// option, an iterator.
    ///
    /// ```
    /// use stillstream::prelude::*;
    ///
    /// # async fn friends_of(user: u64) -> Result<Vec<u64>> { Ok(vec![user]) }
    /// fn friends(users: &DataStream<u64>) -> DataStream<u64> {
    ///     users.async_flat_map(|user| async move { friends_of(user).await }).timeout(seconds(5)).unordered()
    /// }
    /// # let _ = friends;
    /// ```
    pub fn async_flat_map<I, Fut>(
        &self,
        f: impl Fn(T) -> Fut + Send + Sync + 'static,
    ) -> AsyncStream<T, I::Item>
    where
        I: IntoIterator,
        I::Item: Data,
        Fut: Future<Output = Result<I>> + Send + 'static,
    {
        self.asking("async_flat_map", move |record| {
            let answer = f(record);
            Box::pin(async move { answer.await.map(|values| values.into_iter().collect()) })
        })
    }

    /// Like [`async_flat_map`](Self::async_flat_map), with something that each subtask makes once and all its
    /// requests share: a client with its connections. `open` is called within the Tokio runtime that the
    /// requests run on, at each start of the job; what it made is dropped when the attempt is over.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use stillstream::prelude::*;
    ///
    /// struct Client { prefix: String }
    /// impl Client {
    ///     async fn name_of(&self, user: u64) -> Result<String> { Ok(format!("{}{user}", self.prefix)) }
    /// }
    ///
    /// let env = StreamExecutionEnvironment::new();
    /// let names = env
    ///     .from_collection(1..=2u64)
    ///     .async_flat_map_with(
    ///         |runtime| Ok(Client { prefix: format!("{}-", runtime.name()) }),
    ///         |client: Arc<Client>, user| async move { Ok(Some(client.name_of(user).await?)) },
    ///     )
    ///     .ordered()
    ///     .name("names")
    ///     .collect();
    /// env.execute("names")?;
    /// assert_eq!(names.items(), ["names-1", "names-2"]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn async_flat_map_with<C, I, Fut>(
        &self,
        open: impl Fn(&RuntimeContext) -> Result<C> + Send + Sync + 'static,
        f: impl Fn(Arc<C>, T) -> Fut + Send + Sync + 'static,
    ) -> AsyncStream<T, I::Item>
    where
        C: Send + Sync + 'static,
        I: IntoIterator,
        I::Item: Data,
        Fut: Future<Output = Result<I>> + Send + 'static,
    {
        let f = Arc::new(f);
        self.asking_with("async_flat_map", move |runtime| {
            let (client, f) = (Arc::new(open(runtime)?), f.clone());
            Ok(Arc::new(move |record| -> Attempt<Vec<I::Item>> {
                let answer = f(client.clone(), record);
                Box::pin(async move { answer.await.map(|values| values.into_iter().collect()) })
            }))
        })
    }

    fn asking<U: Data>(
        &self,
        name: &'static str,
        ask: impl Fn(T) -> Attempt<Vec<U>> + Send + Sync + 'static,
    ) -> AsyncStream<T, U> {
        let ask: Ask<T, U> = Arc::new(ask);
        self.asking_with(name, move |_| Ok(ask.clone()))
    }

    fn asking_with<U: Data>(
        &self,
        name: &'static str,
        open: impl Fn(&RuntimeContext) -> Result<Ask<T, U>> + Send + Sync + 'static,
    ) -> AsyncStream<T, U> {
        let settings = AsyncSettings {
            open: Arc::new(open),
            capacity: CAPACITY,
            timeout: None,
            on_timeout: None,
            delays: RetryDelays::NONE,
            retryable: None,
        };
        AsyncStream { input: self.clone(), name, settings }
    }
}

/// A stream whose records are asked for elsewhere, as [`DataStream::async_map`] makes it.
#[must_use = "nothing is asked without `ordered()` or `unordered()`"]
pub struct AsyncStream<T, U> {
    input: DataStream<T>,
    name: &'static str,
    settings: AsyncSettings<T, U>,
}

impl<T, U> fmt::Debug for AsyncStream<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncStream")
            .field("input", &self.input)
            .field("capacity", &self.settings.capacity)
            .field("timeout", &self.settings.timeout)
            .finish_non_exhaustive()
    }
}

impl<T: Data, U: Data> AsyncStream<T, U> {
    /// How many records each subtask may have under way, those included whose answers wait for earlier ones;
    /// 100 if this is not called. When so many are, the operator takes no more, and backpressure holds back
    /// what comes before it.
    pub fn capacity(mut self, records: usize) -> Self {
        if records == 0 {
            self.input
                .graph()
                .mistake("a capacity of 0 requests: an asynchronous operator needs at least 1".into());
        }
        self.settings.capacity = records.max(1);
        self
    }

    /// How long a record may be under way, all tries together, before it [counts as
    /// failed](Self::on_timeout). Without it there is no limit: an answer that never comes then stops the job
    /// from going on.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = Some(timeout);
        self
    }

    /// What goes on for a record whose time is over, in place of an error that fails the job.
    pub fn on_timeout(mut self, f: impl Fn(T) -> Result<U> + Send + Sync + 'static) -> Self {
        self.settings.on_timeout = Some(Arc::new(move |record| f(record).map(|value| vec![value])));
        self
    }

    /// Makes a request that failed again, while its time is not over. Without it, the first error fails the
    /// job.
    pub fn retry(mut self, retry: AsyncRetry) -> Self {
        (self.settings.delays, self.settings.retryable) = (retry.delays, retry.only_if);
        self
    }

    /// Answers go on in the order of the records; one that is late holds back all behind it.
    pub fn ordered(self) -> DataStream<U> {
        self.build(Order::Input)
    }

    /// Answers go on as they come, but none passes a watermark: what came before one goes on before it, so
    /// nothing becomes late.
    pub fn unordered(self) -> DataStream<U> {
        self.build(Order::Completion)
    }

    fn build(self, order: Order) -> DataStream<U> {
        let Self { input, name, settings } = self;
        input.operator(NodeSpec::stateful(name), move || Ok(AsyncOperator::new(settings.clone(), order)))
    }
}
