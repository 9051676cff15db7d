//! Searches a user's messages for words.
//!
//! Promises that each call does a bounded amount of work, whatever it finds, and returns where to continue; and that it
//! finds nothing in sessions of other owners. It is built on the component's lists and messages, not on an index,
//! because words are matched literally.

use super::{Message, MessageQuery, SessionError, SessionErrorCode, SessionSummary, Sessions, UserListing};

/// Pages of transcripts and of the list in one call: of each transcript's page 2,048 records or 4 MiB are looked at.
const MAX_PAGES_PER_CALL: u32 = 8;
/// Sessions of a page of the list.
const SESSIONS: u32 = 50;
const LIMIT: u32 = 20;
const LIMIT_MAX: u32 = 100;
/// As many as may be searched for.
const WORDS_MAX: usize = 16;
const WORD_BYTES_MAX: usize = 256;
/// What is believed of a listed session, of which each message that is found has a copy: the contract has less.
const ID_BYTES_MAX: usize = 1024;
const TITLE_BYTES_MAX: usize = 1024;

/// A message that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundMessage {
    /// The session's id.
    pub session: String,
    /// The session's title.
    pub title: Option<String>,
    /// The message itself.
    pub message: Message,
}

/// What a search has found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserSearch {
    /// From the session used last on, in each the newest first.
    pub found: Vec<FoundMessage>,
    /// Go on with this. None: all there is has been looked at.
    pub next: Option<String>,
}

#[allow(clippy::multiple_inherent_impl, reason = "methods of the same room's type, by what they are for")]
impl Sessions {
    /// Messages in a user's sessions that contain all of these words, in either case: those of the session used last first, in
    /// each the newest first. At most `limit` (0: 20; no more than 100) from where an earlier call ended on (`after`). A page
    /// can be empty and not the last. Nodes are not searched.
    ///
    /// Cost: four transactions for each 50 sessions, two or three for each page of a transcript, of which a call reads no
    /// more than eight (2,048 records or 4 MiB each).
    ///
    /// # Errors
    /// See [`SessionError`]. [`SessionErrorCode::InvalidValue`] for no word, more than 16, or one of more than 256 bytes.
    pub async fn search_user(
        &mut self,
        user: &str,
        words: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<UserSearch, SessionError> {
        let words = Words::parse(words)?;
        let mut at = after.map_or(Ok(SearchCursor::default()), SearchCursor::parse)?;
        let limit = usize::try_from(if limit == 0 { LIMIT } else { limit.min(LIMIT_MAX) }).unwrap_or(usize::MAX);
        let listed = UserListing::for_user(user);
        let mut search = UserSearch::default();
        let mut work = MAX_PAGES_PER_CALL;
        loop {
            let list = self.list_user_sessions(&listed, user, at.list, SESSIONS).await?;
            check_progress(list.older, at.list)?;
            let page: Vec<ListedSession> = list.sessions.into_iter().filter_map(ListedSession::bounded).collect();
            // By name, if it is still on this page.
            let known = page.iter().position(|listed| !at.session.is_empty() && name_of(self, listed) == at.session);
            let begin = known.unwrap_or(at.index);
            let mut before = at.before.filter(|_| known.is_some());
            for (index, session) in page.iter().enumerate().skip(begin) {
                loop {
                    if work == 0 || search.found.len() >= limit {
                        let session = name_of(self, session);
                        search.next = Some(SearchCursor { list: at.list, index, session, before }.write());
                        return Ok(search);
                    }
                    work -= 1;
                    let room = limit - search.found.len();
                    let (mut found, older) =
                        search_transcript_page(self, Some(&listed), session, &words, before, room).await?;
                    search.found.append(&mut found);
                    before = older;
                    if before.is_none() {
                        break;
                    }
                }
            }
            let Some(older) = list.older else { return Ok(search) };
            at = SearchCursor { list: Some(older), ..SearchCursor::default() };
            work = work.saturating_sub(1);
            if work == 0 {
                search.next = Some(at.write());
                return Ok(search);
            }
        }
    }

    /// As [`Self::search_user`], in one session, regardless of its owner.
    pub(crate) async fn search_one_session(
        &mut self,
        session: &str,
        words: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<UserSearch, SessionError> {
        let words = Words::parse(words)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let session = ListedSession { session: session.to_owned(), title: None };
        let mut place = after.map_or(Ok(SearchCursor::default()), SearchCursor::parse)?;
        let mut search = UserSearch::default();
        for _ in 0..MAX_PAGES_PER_CALL {
            let room = limit.saturating_sub(search.found.len());
            let (mut found, older) = search_transcript_page(self, None, &session, &words, place.before, room).await?;
            search.found.append(&mut found);
            place.before = older;
            if older.is_none() || search.found.len() >= limit {
                break;
            }
        }
        search.next = place.before.map(|_| place.write());
        Ok(search)
    }
}

/// At most so many messages of one page of a transcript, and where to go on in it. The session is on the user's list;
/// without one, it is whosever it is.
async fn search_transcript_page(
    sessions: &mut Sessions,
    listed: Option<&UserListing>,
    session: &ListedSession,
    words: &Words,
    before: Option<u64>,
    room: usize,
) -> Result<(Vec<FoundMessage>, Option<u64>), SessionError> {
    let query = MessageQuery { contains: words.longest(), before, limit: 1000, ..MessageQuery::default() };
    let Some(page) = sessions.read_messages(listed, &session.session, query).await? else {
        return Ok((Vec::new(), None));
    };
    let (mut found, mut older) = (Vec::new(), page.older);
    for message in page.messages.into_iter().rev() {
        if found.len() >= room {
            older = Some(message.position.saturating_add(1));
            break;
        }
        if words.are_in(&message) {
            found.push(FoundMessage { session: session.session.clone(), title: session.title.clone(), message });
        }
    }
    check_progress(older, before)?;
    Ok((found, older))
}

/// No id is in a place: it may hold what separates its parts.
fn name_of(sessions: &Sessions, listed: &ListedSession) -> String {
    sessions.inner.session_ids.bucket_name_or_id(&listed.session).into_owned()
}

/// A session of a user's list.
struct ListedSession {
    session: String,
    title: Option<String>,
}

impl ListedSession {
    /// None: its id is longer than the contract allows.
    fn bounded(SessionSummary { session, title, .. }: SessionSummary) -> Option<Self> {
        let title = title.filter(|title| title.len() <= TITLE_BYTES_MAX);
        (session.len() <= ID_BYTES_MAX).then_some(Self { session, title })
    }
}

/// Where a search continues.
#[derive(Debug, Default, PartialEq, Eq)]
struct SearchCursor {
    /// The page of the list: its `before`.
    list: Option<u64>,
    /// How many sessions of that page are done.
    index: usize,
    /// The one after them; empty: not known.
    session: String,
    /// Where in its transcript.
    before: Option<u64>,
}

impl SearchCursor {
    fn write(&self) -> String {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        format!("{}.{}.{}.{}", number(self.list), self.index, self.session, number(self.before))
    }

    fn parse(text: &str) -> Result<Self, SessionError> {
        let number = |text: &str| if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) };
        let read = || {
            let mut parts = text.split('.');
            let (list, index, session, before) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            let session = session.to_owned();
            let place = Self { list: number(list)?, index: index.parse().ok()?, session, before: number(before)? };
            parts.next().is_none().then_some(place)
        };
        read().ok_or_else(|| {
            invalid_value_error("`after` must be the value that the previous page of this search ended with".to_owned())
        })
    }
}

/// What is searched for.
#[derive(Debug)]
struct Words(Vec<String>);

impl Words {
    fn parse(text: &str) -> Result<Self, SessionError> {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        if !(1..=WORDS_MAX).contains(&words.len()) || words.iter().any(|word| word.len() > WORD_BYTES_MAX) {
            let message = format!("A search has 1 to {WORDS_MAX} words of at most {WORD_BYTES_MAX} bytes");
            return Err(invalid_value_error(message));
        }
        Ok(Self(words))
    }

    /// The one that the component looks for: it knows the cases of ASCII letters alone.
    fn longest(&self) -> Option<&str> {
        self.0.iter().map(String::as_str).filter(|word| word.is_ascii()).max_by_key(|word| word.len())
    }

    /// Whether all of them are in a message: in what was said, in a tool's name or in what it was asked for.
    fn are_in(&self, message: &Message) -> bool {
        let tool = message.tool.as_ref();
        let arguments = tool.and_then(|tool| tool.arguments.as_deref());
        let said = [Some(&*message.content), tool.map(|tool| &*tool.name), arguments];
        let said: Vec<String> = said.into_iter().flatten().map(str::to_lowercase).collect();
        let said = said.join("\n");
        self.0.iter().all(|word| said.contains(word.as_str()))
    }
}

/// A page must end before it began, or it would be read again and again.
fn check_progress(older: Option<u64>, before: Option<u64>) -> Result<(), SessionError> {
    if older.zip(before).is_some_and(|(older, before)| older >= before) {
        let message = "the plugin makes no progress: its pages repeat".to_owned();
        return Err(SessionError { code: SessionErrorCode::Plugin, message });
    }
    Ok(())
}

fn invalid_value_error(message: String) -> SessionError {
    SessionError { code: SessionErrorCode::InvalidValue, message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::ToolPart;

    #[test]
    fn search_cursors_round_trip_and_invalid_ones_are_refused() {
        for place in [
            SearchCursor::default(),
            SearchCursor { list: Some(7), index: 49, session: "a-b_1".into(), before: Some(u64::MAX) },
            SearchCursor { list: None, index: 1, session: "s".into(), before: None },
        ] {
            assert_eq!(SearchCursor::parse(&place.write()).unwrap(), place);
        }
        for text in ["", "1", "..", "x.0..", ".-1..", ".0.s.x", ".0.s.1.", "1.2.3.4.5", "99999999999999999999.0.."] {
            assert_eq!(SearchCursor::parse(text).unwrap_err().code, SessionErrorCode::InvalidValue, "{text}");
        }
    }

    #[test]
    fn search_words_match_literally_and_ignore_case() {
        let message = Message {
            position: 0,
            id: String::new(),
            parent: String::new(),
            turn: String::new(),
            role: "assistant".into(),
            kind: "tool-call".into(),
            at: 0,
            tokens: None,
            content: "Größe (a+b)".into(),
            tool: Some(ToolPart {
                call_id: "c".into(),
                name: "Look".into(),
                arguments: Some(r#"{"where":"Leipzig"}"#.into()),
                error: None,
            }),
            extras: None,
        };
        for (words, is_in) in [
            ("GRÖSSE", false),
            ("größe", true),
            ("GRÖßE", true),
            ("A+B", true),
            ("leipzig look", true),
            ("a.b", false),
            ("(a+b) rome", false),
        ] {
            assert_eq!(Words::parse(words).unwrap().are_in(&message), is_in, "{words}");
        }
        assert_eq!(Words::parse("Größe abc ab").unwrap().longest(), Some("abc"));
        assert_eq!(Words::parse("é").unwrap().longest(), None);
        for words in ["", " \n", &"a ".repeat(17), &"a".repeat(257)] {
            assert_eq!(Words::parse(words).unwrap_err().code, SessionErrorCode::InvalidValue);
        }
    }
}
