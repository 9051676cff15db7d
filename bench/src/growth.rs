//! Growth: the cost of an entry while its session, its size, or the store grows.
//!
//! Each curve is compared with its first point.

use anyhow::Result;
use keepline::Keepline;

use crate::{
    Bench,
    contenders::{Piped, answer_of, pipes},
    measure::{Comparison, Contender, SideBySide},
    recall::{self, Users},
    report::{Section, thousands},
    stores::{A_DAY, Stores, Tested, keepline},
};

/// Without limits that would end a curve.
const ROOMY: &str = r#"{"session_ttl_hours": 24, "max_keys": 10000, "max_value_bytes": 8388608,
    "max_context_bytes": 8388608, "max_history": 1000000}"#;
/// Sessions of a point that is not about their number.
const A_FEW: u64 = 8;
/// Pairs of a round, so that a point stays about where it is.
const PAIRS: u64 = 50;

pub fn measure(bench: &Bench) -> Result<Vec<Section>> {
    let mut sections = bench.single.block_on(of_sessions(bench))?;
    sections.extend(bench.single.block_on(of_stores(bench))?);
    sections.push(bench.all.block_on(side_by_side(bench))?);
    Ok(sections)
}

/// Curves that need no store of their own.
async fn of_sessions(bench: &Bench) -> Result<Vec<Section>> {
    let stores = [Stores::open(&bench.disk)?];
    let at = bench.effort;
    let points: Vec<_> = at.points(&[100, 1_000, 100_000]).collect();
    let history = curve(bench, "Growth: operations in the history", &points, &stores, async |tested, operations| {
        let name = format!("history-{operations}");
        Piped::new(&keepline(&bench.plugin, &tested.unsynced, ROOMY).await?, &*name, A_FEW)
            .fill(operations / 2)
            .await?;
        Ok(Piped::new(&keepline(&bench.plugin, &tested.store, ROOMY).await?, name, A_FEW))
    });
    let mut sections = vec![history.await?];
    let points: Vec<_> = at.points(&[1, 100, 1_000]).collect();
    let keys = curve(bench, "Growth: keys of the session", &points, &stores, async |tested, keys| {
        let (filling, name) = (keepline(&bench.plugin, &tested.unsynced, ROOMY).await?, format!("keys-{keys}"));
        Piped::new(&filling, &*name, A_FEW).fill(1).await?;
        let (mut sessions, value) = (filling.sessions(), format!("\"{}\"", answer_of(100)));
        for (session, key) in (0..A_FEW).flat_map(|session| (0..keys).map(move |key| (session, key))) {
            sessions.put(&format!("{name}-{session}"), &format!("key-{key}"), &value).await?;
        }
        Ok(Piped::new(&keepline(&bench.plugin, &tested.store, ROOMY).await?, name, A_FEW))
    });
    sections.push(keys.await?);
    let points: Vec<_> = at.points(&[1 << 10, 64 << 10, 1 << 20]).collect();
    let sizes = curve(bench, "Growth: characters of an answer", &points, &stores, async |tested, characters| {
        let keepline = keepline(&bench.plugin, &tested.store, ROOMY).await?;
        let mut piped = Piped::new(&keepline, format!("size-{characters}"), A_FEW);
        piped.answer = answer_of(characters as usize);
        piped.fill(1).await?;
        Ok(piped)
    });
    sections.push(sizes.await?);
    Ok(sections)
}

/// Curves of which each point has stores of its own.
async fn of_stores(bench: &Bench) -> Result<Vec<Section>> {
    let points: Vec<u64> = bench.effort.points(&[100, 1_000, 1_000_000]).collect();
    let stores = points.iter().map(|_| Stores::open(&bench.disk)).collect::<Result<Vec<_>>>()?;
    for (&count, stores) in points.iter().zip(&stores) {
        for tested in &stores.all {
            eprintln!("filling {} with {} sessions", tested.name, thousands(count));
            Piped::new(&keepline(&bench.plugin, &tested.unsynced, A_DAY).await?, "s", count).fill(1).await?;
        }
    }
    let any = curve(bench, "Growth: sessions in the store, any of them", &points, &stores, async |tested, count| {
        Ok(Piped::new(&keepline(&bench.plugin, &tested.store, A_DAY).await?, "s", count).at_random())
    });
    let mut sections = vec![any.await?];
    let ten = curve(bench, "Growth: sessions in the store, the same ten", &points, &stores, async |tested, _| {
        Ok(Piped::new(&keepline(&bench.plugin, &tested.store, A_DAY).await?, "s", 10))
    });
    sections.push(ten.await?);
    let new = curve(bench, "Growth: sessions in the store, a new one", &points, &stores, async |tested, _| {
        let keepline = keepline(&bench.plugin, &tested.store, A_DAY).await?;
        Ok(New { piped: Piped::new(&keepline, "new", 1), keepline, is_created: false })
    });
    sections.push(new.await?);
    drop(stores);

    let points: Vec<u64> = bench.effort.points(&[10, 100, 100_000]).collect();
    let stores = points.iter().map(|_| Stores::open(&bench.disk)).collect::<Result<Vec<_>>>()?;
    for (&count, stores) in points.iter().zip(&stores) {
        for tested in &stores.all {
            eprintln!("filling {} with {} users", tested.name, thousands(count));
            Users::fill(&keepline(&bench.plugin, &tested.unsynced, recall::filter("user")).await?, count).await?;
        }
    }
    let title = "Growth: users in the store, a question to the memory of any of them";
    let users = curve(bench, title, &points, &stores, async |tested, count| {
        Ok(Users::new(keepline(&bench.plugin, &tested.store, recall::filter("user")).await?, count))
    });
    sections.push(users.await?);
    Ok(sections)
}

/// Pipes at once, by their number.
async fn side_by_side(bench: &Bench) -> Result<Section> {
    let stores = Stores::open(&bench.disk)?;
    let mut table = Comparison::new("Growth: pipes side by side", "store, pipes");
    // Of a directory, see the part of its own.
    for Tested { name, store, .. } in stores.all.iter().filter(|tested| tested.name != "directory") {
        let keepline = keepline(&bench.plugin, store, A_DAY).await?;
        for (number, count) in bench.effort.points(&[1, 2, 8, 64]).enumerate() {
            table.enter(number == 0, format!("{name}, {count}"), SideBySide(pipes(&keepline, count)))?;
        }
    }
    table.note("each pipe has a session of its own; ×: of a pair by rate");
    table.run(bench.effort).await
}

/// Each store at each point; the first point is the baseline. `stores` are those of the points, or one for all points.
async fn curve<C: Contender>(
    bench: &Bench,
    title: &str,
    points: &[u64],
    stores: &[Stores],
    contender: impl AsyncFn(&Tested, u64) -> Result<C>,
) -> Result<Section> {
    let mut table = Comparison::new(title, "store, number");
    for place in 0..stores.first().map_or(0, |stores| stores.all.len()) {
        for (number, &point) in points.iter().enumerate() {
            let Some(tested) = stores.get(number).or(stores.last()).and_then(|stores| stores.all.get(place)) else {
                continue;
            };
            let label = format!("{}, {}", tested.name, thousands(point));
            table.enter(number == 0, label, contender(tested, point).await?)?;
        }
    }
    table.run_limited(bench.effort, PAIRS).await
}

/// The first pair of a session, which is deleted afterwards.
struct New {
    keepline: Keepline,
    piped: Piped,
    is_created: bool,
}

impl Contender for New {
    async fn prepare(&mut self) -> Result<()> {
        if self.is_created {
            self.keepline.sessions().delete("new-0").await?;
        }
        self.is_created = true;
        self.piped.prepare().await
    }

    async fn question(&mut self) -> Result<()> {
        self.piped.question().await
    }

    async fn answer(&mut self) -> Result<()> {
        self.piped.answer().await
    }
}
