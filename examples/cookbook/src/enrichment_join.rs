//! Enrichment: each order gets the name of its customer from a second stream.
//!
//! Two keyed streams are connected, and both calls see the same state of the key. Nobody knows which stream
//! is ahead, so an order that comes before its customer waits in a list.
//!
//! ```text
//! ("Ada", "engine")
//! ("Ada", "punched cards")
//! ("Grace", "compiler")
//! ```

use stillstream::prelude::*;

/// A customer's number, and the goods or the name.
type Order = (u32, String);
type Customer = (u32, String);

struct WithName {
    name: ValueState<String>,
    waiting: ListState<String>,
}

impl CoProcess for WithName {
    type Key = u32;
    type In1 = Order;
    type In2 = Customer;
    type Out = (String, String);

    fn open(states: &mut CoStates<Self>) -> Result<Self> {
        Ok(Self { name: states.value("name")?, waiting: states.list("waiting orders")? })
    }

    fn process1(&mut self, (_, goods): Order, ctx: &mut CoContext<Self>) -> Result<()> {
        match self.name.get(ctx)? {
            Some(name) => ctx.emit((name, goods)),
            None => self.waiting.add(ctx, goods)?,
        }
        Ok(())
    }

    fn process2(&mut self, (_, name): Customer, ctx: &mut CoContext<Self>) -> Result<()> {
        for goods in self.waiting.get(ctx)? {
            ctx.emit((name.clone(), goods));
        }
        self.waiting.clear(ctx)?;
        Ok(self.name.set(ctx, name)?)
    }
}

pub fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    let owned = |(customer, text): (u32, &str)| (customer, text.to_string());
    let orders = env.from_collection([(1, "engine"), (2, "compiler"), (1, "punched cards")].map(owned));
    let customers = env.from_collection([(1, "Ada"), (2, "Grace")].map(owned));

    orders
        .connect(&customers)
        .key_by(|order| order.0, |customer| customer.0)
        .process::<WithName>()
        .uid("with name")
        .print();

    env.execute("enrichment join").map(drop)
}
