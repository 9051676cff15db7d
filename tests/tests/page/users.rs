//! Users, and forgetting them.

use serde_json::json;

use crate::{browser::Browser, data, server::Server};

#[test]
#[ignore = "needs a browser: make page"]
fn forgetting_a_user_asks_first_and_ends_at_zero() {
    let server = Server::of_conversations(&[]);
    data::parcel(&server);
    data::others(&server);
    server.put("/users/anna/keys/language", &json!("German")).ok();
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/users/anna", (1280, 820));
    tab.until_text("[data-figure=sessions] dd", "1");
    tab.until_text("[aria-label=Values]", "German");
    tab.until_text("[aria-label='Sessions of the user']", "A parcel and two lamps");
    tab.click(".forget .button");
    tab.until_text("#confirm-dialog", "1 session, 1 value, 0 nodes");
    // The safe answer has the focus.
    tab.press("Enter");
    tab.until("!document.querySelector('#confirm-dialog').open");
    assert_eq!(server.get("/users/anna").status, 200);
    tab.click(".forget .button");
    tab.click("#confirm-yes");
    tab.until_text(".forget-status", "nothing is left");
    assert_eq!(tab.text("[data-figure=sessions] dd"), "0");
    assert_eq!(tab.text("[data-figure=values] dd"), "0");
    assert_eq!(server.get("/users/anna").status, 404);
    tab.until("![...document.querySelectorAll('.row-name')].some((name) => name.textContent === 'anna')");
    tab.assert_quiet();
}

/// A dialog tells later that it was closed. Read as the answer to the next question, it would leave that without one; and the next
/// answer is not the earlier question's.
#[test]
#[ignore = "needs a browser: make page"]
fn questions_that_follow_each_other_at_once_have_answers_of_their_own() {
    let server = Server::of_conversations(&[]);
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/users", (1280, 820));
    tab.until("document.querySelector('.list-total')");
    let answers = tab.value(
        "(async () => {
            const { confirmed } = await import('/page/core/confirm-dialog.js');
            const answer = (button) => {
                const answered = confirmed({ title: 'Delete?', text: '', action: 'Delete' });
                document.querySelector(button).click();
                return answered;
            };
            return Promise.all(['#confirm-no', '#confirm-yes', '#confirm-no'].map(answer));
        })()",
    );
    assert_eq!(answers, json!([false, true, false]));
}
