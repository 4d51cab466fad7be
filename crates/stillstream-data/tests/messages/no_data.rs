use stillstream_data::Data;

struct Flight {
    carrier: String,
}

fn may_cross_an_exchange<T: Data>(_: T) {}

fn main() {
    may_cross_an_exchange(Flight { carrier: "AA".into() });
}
