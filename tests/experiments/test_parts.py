"""Long experiments are computed in parts, which are kept, checked and joined by the code."""

import json
import os
import threading
import time

import pytest

from clusterica.experiments import IncompleteError, Result, _parts, experiment, run
from clusterica.experiments import _registry as registry


@pytest.fixture
def table(monkeypatch):
    """Register a table of two rows and a part that both need; what was computed ends in the list."""
    registry.available()  # imports them all, once and for all
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    computed, settings = [], {"size": 3}

    @experiment("T0-long", title="t", paper="p", claim="c", draws=False, options=("rows",))
    def long(ctx):
        def job(name, value):
            computed.append(name)
            return (value, ctx.seed)

        shared = ctx.parts(settings, {"constant": lambda: job("constant", 1)}, always=True)
        names = ("a, 1", "b", *settings.get("optional", ()))
        jobs = {n: lambda n=n: job(n, shared["constant"][0]) for n in names}
        found = ctx.parts(settings, jobs, optional=names[2:])
        rows = [(name, str(value)) for name, value in found.items()]
        return Result(columns=("row", "value"), rows=rows, values={}, settings=settings)

    return computed, settings


def test_all_rows_at_once(table, tmp_path):
    outcome = run("T0-long", output=tmp_path)
    assert table[0] == ["constant", "a, 1", "b"]
    record = json.loads(outcome.json_path.read_text())
    assert record["rows"] == [["a, 1", "[1, 0]"], ["b", "[1, 0]"]]
    assert list(record["parts"]) == ["constant", "a, 1", "b"]
    part = record["parts"]["b"]
    assert part["value"] == [1, 0]
    assert part["settings"] == {"size": 3, "seed": 0, "quick": False}
    assert {"commit", "versions", "device", "started", "seconds"} <= set(part["made"])
    assert [path.name for path in tmp_path.iterdir()] == ["T0-long.json"]


def test_rows_one_by_one_make_the_same_file(table, tmp_path):
    with pytest.raises(IncompleteError, match=r"1 of 2 parts are done. Missing: a, 1\."):
        run("T0-long", output=tmp_path / "steps", rows=("b",))
    assert not (tmp_path / "steps" / "T0-long.json").exists()
    in_steps = run("T0-long", output=tmp_path / "steps", rows=("a, 1",))
    assert table[0] == ["constant", "b", "a, 1"]
    at_once = run("T0-long", output=tmp_path / "once")
    steps, once = (json.loads(o.json_path.read_text()) for o in (in_steps, at_once))
    for record in (steps, once):
        for made in (record, *record["parts"].values()):
            del made["made"]
    assert steps == once


def test_settings_of_one_row(table, tmp_path):
    @experiment("T2-more", title="t", paper="p", claim="c", draws=False, options=("rows",))
    def long(ctx):
        found = ctx.parts(
            {"n": 1}, {"a": lambda: 1, "b": lambda: 2}, more={"b": {"m": table[1]["size"]}}
        )
        return Result(columns=(), rows=(), values=found, settings={})

    record = json.loads(run("T2-more", output=tmp_path).json_path.read_text())
    settings = {name: part["settings"] for name, part in record["parts"].items()}
    shared = {"n": 1, "seed": 0, "quick": False}
    assert settings == {"a": shared, "b": {**shared, "m": 3}}
    table[1]["size"] = 4
    with pytest.raises(ValueError, match=r"row 'b' of T2-more.*m was 3 and is now 4"):
        run("T2-more", output=tmp_path)


def test_parts_of_an_earlier_call_may_be_needed_by_the_end(table, tmp_path):
    """Pupils are computed as soon as their teacher is there; the table is made when all rows are."""

    @experiment("T3-taught", title="t", paper="p", claim="c", draws=False, options=("rows",))
    def taught(ctx):
        teachers = {"teacher": lambda: 1, "other": lambda: 2}
        found = ctx.parts({}, teachers, optional=["other"])
        found |= ctx.parts({}, {"pupil": lambda: found["teacher"] + 2}, needed=["other"])
        return Result(columns=(), rows=(), values=found, settings={})

    with pytest.raises(IncompleteError, match=r"Missing: other; pupil\."):
        run("T3-taught", output=tmp_path, rows=("teacher",))
    with pytest.raises(IncompleteError, match=r"1 of 2 parts are done. Missing: other\."):
        run("T3-taught", output=tmp_path, rows=("pupil",))
    outcome = run("T3-taught", output=tmp_path)
    assert outcome.parts == {"teacher": 1, "other": 2, "pupil": 3}


def test_chosen_rows_do_not_need_what_draws_them(table, tmp_path, monkeypatch):
    def missing(what):
        raise ImportError(f"{what} needs matplotlib")

    @experiment("T4-drawn", title="t", paper="p", claim="c", options=("rows",))
    def drawn(ctx):
        found = ctx.parts({}, {"a": lambda: 1, "b": lambda: 2})
        return Result(columns=(), rows=(), values=found, settings={})

    monkeypatch.setattr("clusterica.experiments._runner.check_matplotlib", missing)
    with pytest.raises(IncompleteError):
        run("T4-drawn", output=tmp_path, rows=("a",))
    assert (tmp_path / "T4-drawn-parts" / "a.json").exists()
    with pytest.raises(ImportError, match="T4-drawn needs matplotlib"):
        run("T4-drawn", output=tmp_path)


def test_optional_rows_are_left_out_until_they_are_requested(table, tmp_path):
    computed, settings = table
    settings["optional"] = ["c"]
    with pytest.raises(IncompleteError, match=r"Missing: b; c\."):
        run("T0-long", output=tmp_path, rows=("a, 1",))
    outcome = run("T0-long", output=tmp_path, rows=("b",))
    assert list(outcome.parts) == ["constant", "a, 1", "b"]
    assert len(outcome.result.rows) == 2
    outcome = run("T0-long", output=tmp_path)
    assert list(outcome.parts) == ["constant", "a, 1", "b", "c"]
    assert computed == ["constant", "a, 1", "b", "c"]
    run("T0-long", output=tmp_path, rows=("b",))
    assert "c" in json.loads(outcome.json_path.read_text())["parts"]


def test_two_processes_keep_the_rows_of_each_other(table, tmp_path, monkeypatch):
    """One ends, and joins its row, while the other is still computing."""
    table[1]["optional"] = ("c", "d")
    with pytest.raises(IncompleteError):
        run("T0-long", output=tmp_path, rows=("a, 1",))
    run("T0-long", output=tmp_path, rows=("b",))
    compute, ended = _parts.PartStore.compute, []

    def while_another_ends(self, name, job, settings, *, always):
        if name == "d" and not ended:
            ended.append(name)
            run("T0-long", output=tmp_path, rows=("c",))
        compute(self, name, job, settings, always=always)

    monkeypatch.setattr(_parts.PartStore, "compute", while_another_ends)
    outcome = run("T0-long", output=tmp_path, rows=("d",))
    record = json.loads(outcome.json_path.read_text())
    assert [row for row, _ in record["rows"]] == ["a, 1", "b", "c", "d"]
    assert list(record["parts"]) == ["constant", "a, 1", "b", "c", "d"]
    assert [path.name for path in tmp_path.iterdir()] == ["T0-long.json"]


def test_rows_that_another_process_saves_before_the_end_are_in_the_table(
    table, tmp_path, monkeypatch
):
    """It ends while this one draws its pictures."""
    table[1]["optional"] = ("c", "d")
    with pytest.raises(IncompleteError):
        run("T0-long", output=tmp_path, rows=("a, 1",))
    run("T0-long", output=tmp_path, rows=("b",))
    check_rows, ended = _parts.PartStore.check_rows, []

    def while_another_ends(self):
        if not ended:
            ended.append(1)
            run("T0-long", output=tmp_path, rows=("c",))
        check_rows(self)

    monkeypatch.setattr(_parts.PartStore, "check_rows", while_another_ends)
    outcome = run("T0-long", output=tmp_path, rows=("d",), fresh=True)
    record = json.loads(outcome.json_path.read_text())
    assert [row for row, _ in record["rows"]] == ["a, 1", "b", "c", "d"]
    assert list(record["parts"]) == ["constant", *(row for row, _ in record["rows"])]
    # The table was made again, but no row.
    assert table[0] == ["constant", "a, 1", "b", "d", "c"]


def test_a_row_that_is_joined_while_all_are_read_is_found(table, tmp_path, monkeypatch):
    """It leaves the files of parts between two readings."""
    other = _parts.PartStore("T0-long", tmp_path, lambda started, seconds: {})
    other.compute("c", lambda: 1, {}, always=False)
    saved, ended = _parts.PartStore._saved, []

    def while_another_ends(self):
        if not ended:
            ended.append(1)
            _parts.write_json(tmp_path / "T0-long.json", {"parts": other.join()})
            other.clean()
        return saved(self)

    monkeypatch.setattr(_parts.PartStore, "_saved", while_another_ends)
    assert list(_parts.PartStore("T0-long", tmp_path, None).parts) == ["c"]
    assert ended


def test_two_processes_do_not_join_at_the_same_time(table, tmp_path, monkeypatch):
    table[1]["optional"] = ("c", "d")
    run("T0-long", output=tmp_path, rows=("a, 1", "b"))
    write, others = _parts.write_json, []

    def while_another_ends(path, content):
        if not others:
            others.append(threading.Thread(target=run, args=("T0-long",), kwargs=arguments))
            others[0].start()
            others[0].join(0.5)
        write(path, content)

    arguments = {"output": tmp_path, "rows": ("c",)}
    monkeypatch.setattr("clusterica.experiments._runner.write_json", while_another_ends)
    outcome = run("T0-long", output=tmp_path, rows=("d",))
    others[0].join()
    record = json.loads(outcome.json_path.read_text())
    assert [row for row, _ in record["rows"]] == ["a, 1", "b", "c", "d"]
    assert [path.name for path in tmp_path.iterdir()] == ["T0-long.json"]


def test_a_process_that_was_killed_does_not_stop_others(table, tmp_path):
    lock = tmp_path / "T0-long.lock"
    lock.touch()
    os.utime(lock, (time.time() - _parts.STALE - 1,) * 2)
    run("T0-long", output=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["T0-long.json"]


def test_a_part_saved_since_is_not_removed(table, tmp_path):
    store = _parts.PartStore("T0-long", tmp_path, lambda started, seconds: {})
    store.compute("b", lambda: 1, {}, always=False)
    _parts.write_json(
        tmp_path / "T0-long-parts" / "c.json", {"row": "c", "settings": {}, "value": 2}
    )
    store.clean()
    assert [path.name for path in (tmp_path / "T0-long-parts").iterdir()] == ["c.json"]


def test_a_finished_file_is_kept_and_refreshed_on_request(table, tmp_path):
    run("T0-long", output=tmp_path)
    table[0].clear()
    run("T0-long", output=tmp_path)
    assert table[0] == []
    run("T0-long", output=tmp_path, rows=("b",), fresh=True)
    assert table[0] == ["b"]
    run("T0-long", output=tmp_path, fresh=True)
    assert table[0] == ["b", "constant", "a, 1", "b"]


def test_other_settings_are_refused(table, tmp_path):
    run("T0-long", output=tmp_path)
    before = (tmp_path / "T0-long.json").read_text()
    with pytest.raises(ValueError, match=r"seed was 0 and is now 1.*--fresh"):
        run("T0-long", output=tmp_path, seed=1)
    table[1]["size"] = 4
    with pytest.raises(ValueError, match="size was 3 and is now 4"):
        run("T0-long", output=tmp_path, rows=("b",))
    assert (tmp_path / "T0-long.json").read_text() == before


def test_a_stopped_run_goes_on_where_it_was(table, tmp_path, monkeypatch):
    run("T0-long", output=tmp_path / "other")
    table[0].clear()

    class Stop(Exception):
        pass

    def stop_after_one(items, description):
        for i, item in enumerate(items):
            if i == 1:
                raise Stop
            yield item

    with pytest.raises(Stop):
        run("T0-long", output=tmp_path, progress=stop_after_one)
    assert table[0] == ["constant", "a, 1"]
    run("T0-long", output=tmp_path)
    assert table[0] == ["constant", "a, 1", "b"]


def test_rows_that_are_not_there(table, tmp_path):
    with pytest.raises(ValueError, match="has no row 'c'; --rows takes: constant; a, 1; b"):
        run("T0-long", output=tmp_path, rows=("c",))

    @experiment("T1-short", title="t", paper="p", claim="c", draws=False)
    def short(ctx):
        return Result(columns=(), rows=(), values={}, settings={})

    with pytest.raises(ValueError, match="has no rows to choose"):
        run("T1-short", output=tmp_path, rows=("c",))
