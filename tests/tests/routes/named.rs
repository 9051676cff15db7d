//! Values that a case names with `$as`, and puts into later texts as `{{name}}`.

use std::collections::BTreeMap;

use keepline_pipelines::value::Value;

/// What was named so far.
#[derive(Default)]
pub struct Named(BTreeMap<String, Value>);

impl Named {
    /// Names what stands where the expected value says so.
    pub fn capture(&mut self, expected: &Value, found: &Value) {
        match expected {
            Value::Object(members) => {
                for (name, wanted) in members.iter() {
                    if &**name == "$as" {
                        self.0.insert(wanted.as_text().unwrap().to_owned(), found.clone());
                    } else if !name.starts_with('$')
                        && let Some(found) = found.member(name)
                    {
                        self.capture(wanted, found);
                    }
                }
            }
            Value::List(wanted) => {
                let pairs = wanted.iter().zip(found.as_list().unwrap_or_default());
                pairs.for_each(|(wanted, found)| self.capture(wanted, found));
            }
            _ => {}
        }
    }

    /// The value with all names filled in. A text that is one name becomes what it stands for, of whatever type.
    pub fn fill(&self, value: &Value) -> Value {
        match value {
            Value::Text(text) => self.fill_text(text),
            Value::List(items) => Value::list(items.iter().map(|item| self.fill(item)).collect()),
            Value::Object(members) => {
                Value::object(members.iter().map(|(name, value)| (name.clone(), self.fill(value))))
            }
            other => other.clone(),
        }
    }

    fn fill_text(&self, text: &str) -> Value {
        let mut filled = text.to_owned();
        for (name, value) in &self.0 {
            let place = format!("{{{{{name}}}}}");
            if text == place {
                return value.clone();
            }
            let written = value.as_text().map_or_else(|| value.to_json(), str::to_owned);
            filled = filled.replace(&place, &written);
        }
        filled.into()
    }
}

#[test]
fn a_name_alone_keeps_its_type_and_within_a_text_it_is_a_text() {
    let value = |text: &str| Value::parse(text).unwrap();
    let mut named = Named::default();
    named.capture(&value(r#"{"a":[{"$as":"x"}],"b":{"$as":"y"}}"#), &value(r#"{"a":[7],"b":"t"}"#));
    assert_eq!(named.fill(&value(r#"["{{x}}","/{{y}}/{{x}}","{{z}}"]"#)), value(r#"[7,"/t/7","{{z}}"]"#));
}
