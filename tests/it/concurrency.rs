//! Several programs over one home: two runs beside a server, and readers that wait for each other.

use crate::kit::program::{House, PROGRAM, provider};
use crate::kit::said;
use loopback::Play;
use serde_json::Value;
use std::time::{Duration, Instant};

fn listed(house: &House) -> Vec<String> {
    let runs = house.run(&["runs", "--json"]);
    assert_eq!(runs.code, 0, "{}", runs.err);
    let rows: Vec<Value> = serde_json::from_str(&runs.out).unwrap();
    let ended = rows.iter().filter(|row| row["status"] == "completed");
    ended.map(|row| row["run_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_runs_beside_a_server_are_seen_within_a_second() {
    let house = House::new();
    let slow = provider(|| Play::from(said("Here you are.")).pause(Duration::from_millis(20))).await;
    let agent = house.agent(&slow.base_url(), "chat");
    let agent = agent.to_str().unwrap();
    let server = house.serve();
    let (first, second) = (["run", agent, "one", "--json"], ["run", agent, "two", "--json"]);
    let (one, two) = tokio::join!(house.run_beside(&first), house.run_beside(&second));
    let mut ids = Vec::new();
    for run in [one, two] {
        assert_eq!(run.code, 0, "{}", run.err);
        let told: Value = serde_json::from_str(run.out.lines().last().unwrap()).unwrap();
        ids.push(told["run_id"].as_str().unwrap().to_owned());
    }
    let ended = Instant::now();
    let listed = listed(&house);
    assert!(ids.iter().all(|id| listed.contains(id)), "a reader sees what ended before it asked");
    // Pages are for eyes: there the promise is a second. The rest is for a busy machine.
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    loop {
        let page = client.get(&server.pages).send().await.unwrap().text().await.unwrap();
        if ids.iter().all(|id| page.contains(id.as_str())) {
            break;
        }
        assert!(ended.elapsed() < Duration::from_secs(3), "the page does not show the runs");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn readers_without_a_server_wait_for_each_other() {
    let house = House::new();
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let mut command = house.command(PROGRAM);
            command
                .args(["runs", "--json"])
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    for reader in readers {
        let output = reader.wait_with_output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!((output.status.code(), out.trim()), (Some(0), "[]"), "{err}");
    }
}

#[test]
fn a_reader_that_has_waited_in_vain_says_who_holds_the_index() {
    let house = House::new();
    let home = trace::home::Home::open(house.home()).unwrap();
    let lock = trace::lock::Lock::try_take(&home).unwrap();
    let began = Instant::now();
    let runs = house.run(&["runs"]);
    assert_eq!(runs.code, 5, "{}", runs.err);
    assert!(runs.err.contains(&format!("process {}", std::process::id())), "{}", runs.err);
    assert!(began.elapsed() >= Duration::from_secs(5), "it gave up early");
    drop(lock);
    assert_eq!(house.run(&["runs"]).code, 0);
}
