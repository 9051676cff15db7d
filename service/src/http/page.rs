//! Lists, page by page: `{object: "list", data, first_id, last_id, has_more}`.

use serde::Serialize;

use super::{ApiError, Call};

/// Items of a page, unless a request says how many.
const LIMIT: u32 = 20;
/// The most that it can say.
const LIMIT_MAX: u32 = 100;

/// Which page a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageQuery {
    /// `last_id` of the page before.
    pub after: Option<String>,
    /// The most items.
    pub limit: u32,
}

impl PageQuery {
    /// Of the parameters `after` and `limit`.
    ///
    /// # Errors
    /// When the limit is none.
    pub fn of(call: &Call) -> Result<Self, ApiError> {
        let allowed = "a whole number from 1 to 100";
        let limit = call.query.parse("limit", allowed)?.unwrap_or(LIMIT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(ApiError::invalid("limit", format!("limit must be {allowed}")));
        }
        let after = call.query.get("after").filter(|after| !after.is_empty()).map(str::to_owned);
        Ok(Self { after, limit })
    }

    /// `after`, where that is a number.
    ///
    /// # Errors
    /// When it is none.
    pub fn after_number(&self) -> Result<Option<u64>, ApiError> {
        let Some(after) = &self.after else { return Ok(None) };
        let number = after.parse().map(Some);
        number.map_err(|_| ApiError::invalid("after", "after must be the last_id of the page before: a whole number"))
    }
}

/// A page of a list. `last_id` is what `after` takes; it names the last item where items have names of their own.
#[derive(Debug, Serialize)]
pub struct Page<T> {
    object: &'static str,
    data: Vec<T>,
    first_id: Option<String>,
    last_id: Option<String>,
    has_more: bool,
}

impl<T> Page<T> {
    /// A page whose items are found again by these ids. `next`: where the next page begins, if that is not the last id;
    /// `None` for the last page.
    pub fn new(data: Vec<T>, id: impl Fn(&T) -> String, next: Option<String>) -> Self {
        let (first_id, last_id) = (data.first().map(&id), data.last().map(&id));
        let has_more = next.is_some();
        Self { object: "list", data, first_id, last_id: next.or(last_id), has_more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_id_of_a_page_is_what_the_next_one_begins_after() {
        let page = |next: Option<&str>| {
            let page = Page::new(vec![3, 1], i32::to_string, next.map(str::to_owned));
            serde_json::to_value(page).unwrap()
        };
        let last =
            serde_json::json!({"object": "list", "data": [3, 1], "first_id": "3", "last_id": "1", "has_more": false});
        assert_eq!(page(None), last);
        assert_eq!((&page(Some("x"))["last_id"], &page(Some("x"))["has_more"]), (&"x".into(), &true.into()));
        let empty = Page::new(Vec::<i32>::new(), i32::to_string, None);
        assert_eq!(serde_json::to_value(empty).unwrap()["first_id"], serde_json::Value::Null);
    }
}
