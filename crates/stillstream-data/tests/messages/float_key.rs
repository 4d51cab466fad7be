use stillstream_data::Key;

fn keyed_by<K: Key>(_: K) {}

fn main() {
    keyed_by(0.5f64);
}
