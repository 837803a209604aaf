"""The engine: a query only reads the tables that it gets, in bounded time and memory."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tb_plugin.errors import BadRequest
from tb_plugin.sql import engine
from tb_plugin.sql.engine import SqlSource, run_sql

TABLE = pa.table({"event": pa.array(range(100_000)), "name": pa.array(["a", "b"] * 50_000)})


def ask(query, seconds=20.0, table=TABLE):
    return run_sql([SqlSource({}, lambda name: table)], ["events"], query, seconds, is_guarded=True)


def test_rows():
    answer = ask("select name, sum(event) as total, count(*) from events group by name order by name")
    assert answer.table.to_pylist() == [
        {"name": "a", "total": 2_499_950_000, "count_star()": 50_000},
        {"name": "b", "total": 2_500_000_000, "count_star()": 50_000},
    ]
    assert not answer.is_cut


def test_values_are_numbers_flags_and_texts():
    query = "select [1, 2] as list, {'a': 1} as struct, 1.5::decimal(4,1) as part, true as flag, 'x' as t, 'y' as t"
    assert ask(query).table.to_pylist() == [
        {"list": "[1, 2]", "struct": "{'a': 1}", "part": 1.5, "flag": True, "t": "x", "t 2": "y"}
    ]


def test_only_tables_in_use_are_made():
    made = []
    sources = [SqlSource({}, lambda name: made.append(name) or TABLE)]
    run_sql(
        sources, ["events", "kernels"], "with kernels_of as (select * from Kernels) select 1 from kernels_of limit 1"
    )
    assert made == ["kernels"]


@pytest.mark.parametrize("join", ['join "Kernels" using (event)', "natural join kernels"])
def test_joins_by_name_find_their_tables(join):
    sources = [SqlSource({}, lambda name: None if name == "steps" else TABLE)]
    query = f"select count(*) as 'é', max(event) as steps from (select event from events where name = 'a') {join}"
    found = run_sql(sources, ["events", "kernels", "steps"], query).table.to_pylist()
    assert found == [{"é": 50_000, "steps": 99_998}]
    with pytest.raises(BadRequest, match="steps"):
        run_sql(sources, ["events", "steps"], "select * from events join steps using (event)")


def test_names_of_columns_differ():
    query = 'select 1 as "a 2", 2 as a, 3 as a, 4 as sql_row'
    assert ask(query).table.to_pylist() == [{"a 2": 1, "a": 2, "a 3": 3, "sql_row 2": 4}]


def test_places():
    sources = [SqlSource({"rank": "it's 0"}, lambda name: TABLE), SqlSource({"rank": "r1"}, lambda name: None)]
    answer = run_sql(sources, ["events"], "select rank, count(*) as n from events group by rank")
    assert answer.table.to_pylist() == [{"rank": "it's 0", "n": 100_000}]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "select 1; select 2",
        "delete from events",
        "create table x as select 1",
        "copy (select 1) to '/tmp/torch_trace_out.csv'",
        "attach '/tmp/x.db'",
        "install httpfs",
        "load httpfs",
        "set threads = 8",
        "pragma database_list",
        "call pragma_version()",
        "export database '/tmp/x'",
    ],
)
def test_anything_but_one_select_is_refused(query):
    with pytest.raises(BadRequest, match="one SELECT"):
        ask(query)


@pytest.mark.parametrize(
    "query",
    [
        "select * from '/etc/passwd'",
        "select * from read_csv('/etc/passwd')",
        "select * from read_text('/etc/passwd')",
        "select * from read_blob('/etc/passwd')",
        "select * from read_parquet('https://example.com/x.parquet')",
        "select * from glob('/*')",
        "select * from parquet_scan('s3://bucket/x')",
        "select getenv('HOME')",
        "select * from duckdb_secrets()",
        "select * from sqlite_scan('/tmp/x.db', 't')",
        "select * from enable_logging(storage='file', storage_path='/tmp/torch_trace_log')",
        "select * from arrow_scan(1, 2, 3)",
        "select * from pandas_scan(1)",
        "select cast(case when event > 50000 then 'x' else '1' end as int) from events",
        "select nothing from events",
        "select * from TABLE",
        "selec 1",
    ],
)
def test_files_and_the_network_are_out_of_reach(query):
    with pytest.raises(BadRequest):
        ask(query)


@pytest.mark.parametrize(
    "query",
    [
        "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t",
        "select count(*) from events a, events b, events c where a.event + b.event + c.event = 7",
    ],
)
def test_a_query_without_end_is_stopped(query):
    with pytest.raises(BadRequest, match=r"too long|too much memory"):
        ask(query, seconds=1.0)


@pytest.mark.parametrize(
    "query",
    [
        "select repeat('x', 4000000000)",
        "select length(repeat('x', 4000000000) || repeat('y', 200000000))",
        "select list(repeat('x', 100000)) from events",
        "select string_agg(repeat('x', 100000), ',') from events",
    ],
)
def test_a_query_without_limit_of_memory_is_stopped(query, monkeypatch):
    monkeypatch.setattr(engine, "MEMORY_BYTES", 256 * 2**20)
    with pytest.raises(BadRequest, match="too much memory"):
        ask(query)
    assert ask("select 1 as one").table.to_pylist() == [{"one": 1}]


def test_a_long_answer_is_cut():
    answer = ask("select a.event from events a, events b")
    assert answer.is_cut and answer.table.num_rows == engine.MOST_ROWS
    wide = ask("select repeat('x', 100000) as text from events")
    assert wide.is_cut and wide.table.nbytes <= engine.MOST_BYTES
