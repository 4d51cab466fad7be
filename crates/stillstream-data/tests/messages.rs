//! What the compiler says of types that are no data and no key, where a newcomer must know what to do.

#[test]
fn the_compiler_says_what_to_do_about_a_type_that_is_no_data_or_no_key() {
    trybuild::TestCases::new().compile_fail("tests/messages/*.rs");
}
