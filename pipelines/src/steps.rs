pub fn parse_instant(_: &str) -> Option<i64> { None }
