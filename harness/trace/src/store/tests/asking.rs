//! What may be asked, and in which shape answers come.

use super::{home, rows};
use crate::store::{Kind, QueryError, Store};
use serde_json::json;

#[test]
fn nothing_but_one_reading_statement_is_run() {
    let (folder, home) = home();
    let store = Store::open(&home).unwrap();
    let target = folder.path().join("stolen").to_string_lossy().into_owned();
    for attack in [
        "drop table span",
        "select 1; drop table span",
        "select 1; select 2",
        "insert into span (row_id) values (1)",
        &format!("copy (select 1) to '{target}'"),
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "from '/etc/passwd'",
        "select * from glob('/*')",
        "attach '/tmp/x.duckdb' as x",
        "pragma database_list",
        "install httpfs",
        "load httpfs",
        "set memory_limit = '1GB'",
        "call force_checkpoint()",
        "select * from checkpoint()",
        "select * from enable_logging()",
        "select (select count(*) from read_csv('/etc/passwd'))",
        "with a as (from read_csv('/etc/passwd')) from a",
        "explain analyze insert into superseded values (1)",
        "explain copy span to 'x'",
        "select * from query('from read_csv(''/etc/passwd'')')",
        "commit; drop table span",
        "select nextval('x')",
        "",
        ";",
        "-- nothing",
        "select 1) as x; drop table span; select * from (select 1",
    ] {
        assert!(store.query(attack, &[], 10).is_err(), "`{attack}` was run");
    }
    assert!(!std::path::Path::new(&target).exists());
    assert_eq!(rows(&store, "select count(*) from span"), json!([[0]]), "and the connection still works");
}

#[test]
fn statements_that_describe_are_answered_and_a_closing_semicolon_is_no_second_statement() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    for sql in [
        "describe runs",
        "show tables",
        "summarize runs",
        "explain select 1",
        "EXPLAIN ANALYZE select 1",
        "from runs;",
        "select ';' ; -- end",
        "values (1), (2);;",
    ] {
        let answer = store.query(sql, &[], 100);
        assert!(answer.is_ok(), "{sql}: {answer:?}");
    }
    assert_eq!(store.query("describe runs", &[], 3).unwrap().rows[0][0], "run_id");
}

#[test]
fn every_type_has_one_shape_and_columns_of_one_name_stay_apart() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    let sql = "select true a, 1::hugeint a, 170141183460469231731687303715884105727::hugeint b, 1.5::decimal(4,2) c,
        timestamp '2026-01-02 03:04:05.006' d, [1, null] e, {'x': [date '2026-01-01']} f, map {'k': 1} g, null h,
        'x'::blob i, interval 1 day j, 'nan'::double k, uuid '00000000-0000-0000-0000-000000000001' l, 18446744073709551615::ubigint m,
        time '01:02:03' n, date '2026-01-01' o, 'infinity'::timestamp p, '{\"a\":1}'::json q";
    let table = store.query(sql, &[], 10).unwrap();
    assert_eq!(
        json!(table.rows[0]),
        json!([true, 1, "170141183460469231731687303715884105727", 1.5, "2026-01-02T03:04:05.006Z", [1, null],
            {"x": ["2026-01-01"]}, {"k": 1}, null, "x", "1 day", null, "00000000-0000-0000-0000-000000000001",
            18_446_744_073_709_551_615_u64, "01:02:03", "2026-01-01", "infinity", {"a": 1}])
    );
    assert_eq!(table.columns[0].name, table.columns[1].name);
    assert_eq!((table.columns[0].kind, table.columns[4].kind), (Kind::Boolean, Kind::Timestamp));
    let back: crate::store::Table = serde_json::from_value(serde_json::to_value(&table).unwrap()).unwrap();
    assert_eq!(back, table);
}

#[test]
fn an_answer_is_cut_at_the_limit_in_the_order_asked_and_says_so() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    let table = store.query("select range from range(10) order by range desc", &[], 3).unwrap();
    assert_eq!((json!(table.rows), table.truncated), (json!([[9], [8], [7]]), true));
    assert!(!store.query("from range(3)", &[], 3).unwrap().truncated);
}

#[test]
fn parameters_are_bound_and_never_pasted() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    let table = store.query(
        "select $1::varchar, $2 + 1, $3::varchar is null",
        &[json!("'; drop table span --"), json!(2), json!(null)],
        1,
    );
    assert_eq!(json!(table.unwrap().rows), json!([["'; drop table span --", 3, true]]));
}

#[test]
fn a_mistake_is_told_in_duckdbs_words() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    let told = store.query("select agnt from runs", &[], 1).unwrap_err();
    assert!(matches!(told, QueryError::Database(_)) && told.to_string().contains("agnt"), "{told}");
    let told = store.query("delete from span", &[], 1).unwrap_err().to_string();
    assert!(told.contains("only a statement that reads"), "{told}");
}
