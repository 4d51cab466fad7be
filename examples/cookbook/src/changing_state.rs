//! Another type of state: a new version of the program has one field more, and goes on with the old state.
//!
//! A snapshot holds the names and types of the fields, so a field can be added (it starts as its type's
//! `Default`), dropped or moved. In production the old program is stopped, and the new one starts with the
//! same checkpoint folder. Here two drivers stand for the two programs, and hand the snapshot over.
//!
//! ```text
//! version 1: [Account { cents: 100 }, Account { cents: 300 }]
//! version 2: [Account { payments: 1, cents: 350 }]
//! ```

use stillstream::prelude::*;
use stillstream::testing::StreamDriver;

mod version1 {
    use stillstream::prelude::Data;

    #[derive(Clone, Debug, Default, Data)]
    pub struct Account {
        pub cents: u64,
    }
}

mod version2 {
    use stillstream::prelude::Data;

    #[derive(Clone, Debug, Default, Data)]
    pub struct Account {
        pub payments: u32,
        pub cents: u64,
    }
}

/// A payment: the account, and an amount in cents.
type Payment = (u32, u64);

pub fn main() -> Result<()> {
    let mut old = StreamDriver::new(|payments: &DataStream<Payment>| {
        let accounts = payments.key_by(|payment| payment.0);
        accounts.map_with_state("account", |account: &mut version1::Account, (_, cents)| {
            account.cents += cents;
            account.clone()
        })
    });
    old.record((1, 100))?;
    old.record((1, 200))?;
    println!("version 1: {:?}", old.output());

    let mut new = StreamDriver::new(|payments: &DataStream<Payment>| {
        let accounts = payments.key_by(|payment| payment.0);
        accounts.map_with_state("account", |account: &mut version2::Account, (_, cents)| {
            account.cents += cents;
            account.payments += 1;
            account.clone()
        })
    });
    new = new.restored(old.snapshot()?);
    new.record((1, 50))?;
    println!("version 2: {:?}", new.output());
    Ok(())
}
