//! Users: what is known of them, and forgetting them.

use axum::response::Response;
use keepline::{
    sessions::WriteConditions,
    store::{
        BucketId, DescribeOperation, Description, ExistingBucket, Operation, Outcome, Precondition, Transaction,
        Writer, kind, part,
    },
};
use serde::Serialize;
use serde_json::json;

use super::{
    ownership::{reached_user, user_not_found},
    sessions::{
        self, of_user,
        values::{ValueFields, expected_value, key_not_found, tag_of, value_of_body},
    },
};
use crate::http::{self, ApiError, Call, Page, PageQuery, with_expectation, with_tag};

/// A user. Their name is that of their bucket: a plain id as it is, any other hashed.
#[derive(Serialize)]
struct UserFields {
    object: &'static str,
    id: String,
    sessions: u64,
    nodes: u64,
    values: u64,
}

impl UserFields {
    fn new(bucket: &str, description: &Description) -> Self {
        let entries = |map: &str| {
            let found = description.parts.iter().find(|found| found.kind == part::MAP && found.name == map);
            found.map_or(0, |found| found.count)
        };
        let (sessions, nodes) = (entries("sessions"), entries("nodes"));
        Self { object: "user", id: bucket.to_owned(), sessions, nodes, values: description.values }
    }

    /// False for one who was forgotten, of whom only a mark is left.
    fn has_contents(&self) -> bool {
        self.sessions > 0 || self.nodes > 0 || self.values > 0
    }
}

/// The user of the path, if the caller reaches them.
fn user_of_path(call: &Call) -> Result<String, ApiError> {
    reached_user(call, Some(call.path("user")))?.ok_or_else(user_not_found)
}

async fn describe_users(call: &Call, names: &[String]) -> Result<Vec<UserFields>, ApiError> {
    let look = |name: &String| {
        let transaction = Transaction {
            bucket: BucketId::new(kind::USER, name),
            precondition: Precondition::Existing(ExistingBucket { generation: None, renew: false }),
            expectations: Vec::new(),
            operations: vec![Operation::Describe(DescribeOperation { parts: true })],
        };
        transaction.into()
    };
    let looks: Vec<_> = names.iter().map(look).collect();
    let receipts = call.tenant.keepline().store().transact_each(Writer::new().advance(), &looks, call.deadline).await;
    let mut users = Vec::new();
    for (name, receipt) in names.iter().zip(receipts) {
        let receipt = match receipt {
            Err(failure) if failure.code.is_store_failure() => return Err(failure.into()),
            // Damaged.
            Err(_) => continue,
            Ok(receipt) => receipt,
        };
        users.extend(receipt.receipt.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Described(description) => Some(UserFields::new(name, description)),
            _ => None,
        }));
    }
    Ok(users)
}

/// Lists users, with how much each has. Those who were forgotten are left out.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    let page = PageQuery::of(&call)?;
    let (names, next) = match &call.caller.user {
        Some(user) => (vec![keepline::sessions::user_bucket(user)], None),
        None => {
            let after = page.after.as_deref().unwrap_or_default();
            let store = call.tenant.keepline().store();
            let found = store.list_buckets(kind::USER, after, page.limit, call.deadline).await?;
            (found.names, Some(found.cursor).filter(|cursor| !cursor.is_empty()))
        }
    };
    let mut users = describe_users(&call, &names).await?;
    users.retain(UserFields::has_contents);
    http::json(&Page::new(users, |user| user.id.clone(), next))
}

/// What is known of a user.
pub async fn show(call: Call) -> Result<Response, ApiError> {
    let user = user_of_path(&call)?;
    // The component reports best what is wrong with the id.
    let values = call.sessions().user_values(&user, None).await.map_err(of_user)?;
    let names = [keepline::sessions::user_bucket(&user)];
    let found = describe_users(&call, &names).await?.pop();
    let fields = found.filter(UserFields::has_contents).ok_or_else(user_not_found)?;
    let keys: Vec<_> = values.values.iter().map(|value| &*value.key).collect();
    http::json(&json!({
        "object": "user", "id": user, "bucket": fields.id, "sessions": fields.sessions, "nodes": fields.nodes,
        "values": fields.values, "keys": keys,
    }))
}

/// Forgets a user: values, sessions and nodes. Goes on as far as the request's time goes; to be repeated while anything is
/// `remaining`, and at any time.
pub async fn forget(call: Call) -> Result<Response, ApiError> {
    let user = user_of_path(&call)?;
    let (mut gone, mut nodes) = (0_u64, 0_u64);
    let remaining = loop {
        let forgotten = call.sessions().forget_user(&user).await.map_err(of_user)?;
        gone = gone.saturating_add(forgotten.sessions);
        nodes = nodes.saturating_add(forgotten.nodes);
        if forgotten.remaining == 0 || call.deadline.is_over() {
            break forgotten.remaining;
        }
    };
    http::json(&json!({
        "object": "user.forgotten", "id": user, "sessions": gone, "nodes": nodes, "remaining": remaining,
    }))
}

/// The sessions of a user, the one used last first.
pub async fn sessions(call: Call) -> Result<Response, ApiError> {
    let (user, page) = (user_of_path(&call)?, PageQuery::of(&call)?);
    sessions::list_of_user(&call, &user, &page).await
}

/// The values of a user, which each of their questions gets.
pub async fn values(call: Call) -> Result<Response, ApiError> {
    let user = user_of_path(&call)?;
    let found = call.sessions().user_values(&user, None).await.map_err(of_user)?;
    let values: Vec<_> = found.values.iter().map(|value| ValueFields::new(&value.key, &value.value)).collect();
    http::json(&Page::new(values, |value| value.key().to_owned(), None))
}

/// One of them.
pub async fn value(call: Call) -> Result<Response, ApiError> {
    let (user, key) = (user_of_path(&call)?, call.path("key"));
    let found = call.sessions().user_values(&user, Some(key)).await?;
    let value = found.value().ok_or_else(|| key_not_found(key))?;
    Ok(with_tag(http::json(&ValueFields::new(key, value))?, &tag_of(value)))
}

/// Stores a value of a user: the body, JSON.
pub async fn put_value(mut call: Call) -> Result<Response, ApiError> {
    let user = user_of_path(&call)?;
    let value = value_of_body(&mut call).await?;
    let existed = write_value(&call, &user, Some(&value)).await?;
    let reply = http::json(&json!({"object": "value.changed", "key": call.path("key"), "existed": existed}))?;
    Ok(with_tag(reply, &tag_of(&value)))
}

/// Removes a value of a user. One that is not there is no error.
pub async fn remove_value(call: Call) -> Result<Response, ApiError> {
    let existed = write_value(&call, &user_of_path(&call)?, None).await?;
    http::json(&json!({"object": "value.deleted", "key": call.path("key"), "deleted": existed}))
}

/// Writes the value of the path, under the condition of the request. Whether there was one.
async fn write_value(call: &Call, user: &str, value: Option<&str>) -> Result<bool, ApiError> {
    let (mut sessions, key) = (call.sessions(), call.path("key"));
    let expected_value = expected_value(call, sessions.user_values(user, Some(key))).await?;
    let expects = expected_value.is_some();
    let conditions = WriteConditions { expected_value, ..WriteConditions::default() };
    let changed = call.sessions_under(conditions).put_user_value(user, key, value).await;
    Ok(changed.map_err(|error| with_expectation(error, expects))?.existed)
}
