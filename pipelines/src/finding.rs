#[derive(Clone, Debug, PartialEq)]
pub struct Finding { pub path: String, pub is_error: bool, pub message: String }
impl Finding { pub fn to_value(&self) -> crate::value::Value { crate::value::Value::Null } }
