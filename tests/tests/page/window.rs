//! One session: the band of what is sent, and what a question brings back.

use serde_json::json;

use crate::{browser::Browser, data, server::Server, tab::Tab};

const SIZE: (u32, u32) = (1280, 2200);

/// Tokens of the budget, by the slider.
fn slide(tab: &Tab, tokens: u32) {
    tab.value(&format!(
        "(() => {{ const [slider, number] = ['.budget-slider', '.budget-number'].map((it) => document.querySelector(it)); \
         for (let at = 0; at <= 1000; at += 5) {{ slider.value = at; slider.dispatchEvent(new Event('input')); \
         if (Number(number.value) >= {tokens}) return; }} }})()"
    ));
}

#[test]
#[ignore = "needs a browser: make page"]
fn the_slider_moves_the_band_and_each_turn_that_is_out_says_why() {
    let server = Server::of_conversations(&[]);
    data::parcel(&server);
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/sessions/anna-parcel", SIZE);
    tab.until_text(".band-told", "12 turns");
    tab.until("document.querySelectorAll('.turn.is-sent').length === 12");
    slide(&tab, 100);
    tab.until_text(".band-told", "out: ");
    tab.until("document.querySelectorAll('.turn.is-out').length > 8");
    let few = tab.count(".turn.is-sent");
    let reasons = tab.value("[...document.querySelectorAll('.turn.is-out .turn-why')].map((why) => why.textContent)");
    let reasons: Vec<_> = reasons.as_array().unwrap().iter().map(|why| why.as_str().unwrap()).collect();
    assert!(reasons.iter().all(|why| why.starts_with("Out")), "{reasons:?}");
    assert!(few >= 1 && reasons.iter().any(|why| why.contains("over the budget")), "{reasons:?}");
    let shown = server.get("/sessions/anna-parcel/window?budget=100").ok();
    let kept = shown["turns"].as_array().unwrap().iter().filter(|turn| turn["fate"] == "kept").count();
    assert_eq!(few, kept as u64);
    slide(&tab, 400);
    tab.until(&format!("document.querySelectorAll('.turn.is-sent').length > {few}"));
    // One turn is the band's beginning, and all after it are in.
    assert_eq!(tab.count(".turn.is-first"), 1);
    assert_eq!(tab.count(".turn.is-sent ~ .turn.is-out"), 0);
    // By the keyboard.
    tab.value("document.querySelector('.budget-slider').focus()");
    let before = tab.value("Number(document.querySelector('.budget-number').value)").as_u64().unwrap();
    tab.press("ArrowLeft");
    tab.until(&format!("Number(document.querySelector('.budget-number').value) > {before}"));
    tab.until("location.hash.includes('budget=')");
    tab.click(".band-budget .button");
    tab.until("document.querySelectorAll('.turn.is-sent').length === 12");
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn a_question_shows_what_it_brings_back_with_its_words_marked() {
    let server = Server::of_conversations(&["--set", "recall=user"]);
    data::parcel(&server);
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/sessions/anna-parcel?budget=100", SIZE);
    tab.until("document.querySelectorAll('.turn.is-out').length > 8");
    let has_passages = "document.querySelectorAll('.passage').length > 0";
    // The deferred work that cuts passages is done soon.
    for number in 0..100 {
        tab.type_into("#query", &format!("depot {}", "in Leipzig ".repeat(number % 2 + 1)));
        tab.until("!document.querySelector('.recall').hidden");
        std::thread::sleep(std::time::Duration::from_millis(300));
        if tab.value(has_passages) == true {
            break;
        }
    }
    tab.until(has_passages);
    tab.until("[...document.querySelectorAll('.passage mark')].some((mark) => mark.textContent === 'depot')");
    assert!(tab.text(".passage figcaption").contains("score"));
    assert!(tab.text(".recall").contains("words of the question"));
    // Where it was said, it is shown that it comes back.
    tab.until("document.querySelector('.turn.is-out .message.comes-back mark') !== null");
    tab.click(".passage .link");
    tab.until("document.activeElement.classList.contains('turn')");
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn tools_are_folded_into_their_turn_and_branches_are_switched() {
    let server = Server::of_conversations(&[]);
    data::parcel(&server);
    data::others(&server);
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/sessions/anna-parcel", SIZE);
    tab.until_text(".tools summary", "2 tool calls");
    assert!(!tab.text("main").contains("out for delivery"));
    tab.click(".tools summary");
    tab.until_text(".tools", "out for delivery");
    tab.go("#/sessions/ben-haiku");
    tab.until_text(".branches", "2 branches");
    tab.until_text(".timeline-feed", "Snow on the tin roof");
    tab.until("!document.querySelector('.timeline-feed').innerText.includes('kettle')");
    tab.click(".branch:last-child input");
    tab.until_text(".timeline-feed", "a kettle hums");
    tab.until("!document.querySelector('.timeline-feed').innerText.includes('Snow on')");
    tab.until_text(".band-told", "2 turns");
    tab.until("document.querySelectorAll('.turn.is-sent').length === 2");
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn what_is_said_meanwhile_appears_and_a_long_conversation_is_a_few_turns() {
    let server = Server::of_conversations(&[]);
    let message = |number: usize| json!({"role": if number.is_multiple_of(2) { "user" } else { "assistant" }, "content": format!("message {number}")});
    for start in (0..6000).step_by(1000) {
        let messages: Vec<_> = (start..start + 1000).map(message).collect();
        server.post("/sessions/long/messages", &json!(messages)).ok();
    }
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/sessions/long", (1280, 820));
    tab.until_text(".timeline-feed", "message 5999");
    assert!(tab.count(".turn") < 300, "{}", tab.count(".turn"));
    tab.value("void (document.querySelector('.timeline').scrollTop = 0)");
    tab.until_text(".timeline-feed", "message 0");
    assert!(tab.count(".turn") < 300);
    tab.click(".to-end");
    tab.until_text(".timeline-feed", "message 5999");
    server
        .post("/sessions/long/messages", &json!([message(6000), {"role": "assistant", "content": "the newest of all"}]))
        .ok();
    tab.until_text(".timeline-feed", "the newest of all");
    tab.assert_quiet();
}

#[test]
#[ignore = "needs a browser: make page"]
fn the_end_is_followed_until_one_scrolls_up_even_if_messages_come_before_the_event_of_the_scroll() {
    let server = Server::of_conversations(&[]);
    let browser = Browser::start();
    let tab = browser.open(&server, "/#/sessions", (1280, 820));
    let seen = tab.value(
        "(async () => {
            const { Timeline } = await import('/page/session/timeline.js');
            const replies = [];
            const turn = () => Object.assign(document.createElement('p'), { style: 'block-size: 9000px' });
            const timeline = new Timeline({
                load: (number) => new Promise((resolve) => { replies[number] = resolve; }),
                draw: () => [turn()], after: document.createElement('p'), onloaded: () => {},
                onproblem: (error) => { throw error; },
            });
            const { element } = timeline;
            element.style = 'position: fixed; inset: 0';
            document.body.append(element);
            const frame = () => new Promise(requestAnimationFrame);
            const below = () => element.scrollHeight - element.clientHeight - element.scrollTop;
            timeline.setChunks(Array(20).fill(50));
            timeline.scrollToEnd();
            while (!replies[19]) await frame();
            replies[19]([]);
            await frame();
            await frame();
            const afterGrowth = below();
            timeline.setChunks(Array(21).fill(50));
            while (!replies[20]) await frame();
            element.scrollTop = 0;
            replies[20]([]);
            await frame();
            await frame();
            return { afterGrowth, isAtEnd: timeline.isAtEnd(), top: element.scrollTop, height: element.scrollHeight };
        })()",
    );
    assert_eq!(seen["afterGrowth"], 0, "{seen}");
    assert_eq!((&seen["top"], &seen["isAtEnd"]), (&json!(0), &json!(false)), "{seen}");
    assert!(seen["height"].as_u64().unwrap() > 90_000, "{seen}");
}
