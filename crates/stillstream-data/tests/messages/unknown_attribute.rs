use stillstream_data::Data;

#[derive(Clone, Data)]
#[data(crate = stillstream_data)]
struct Flight {
    #[data(renamed = "carrier")]
    airline: String,
}

fn main() {}
