"""Thirty rules of the product, each with a change that breaks it and the tests that notice. The baseline for every cut:
code and tests may shrink as long as these are caught.

Whoever moves the code moves its line; whoever takes a rule back takes its line away and says so."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutation(NamedTuple):
    name: str
    rule: str
    """What it breaks."""
    file: str
    text: str
    """Stands in the file exactly once."""
    instead: str
    tests: tuple[str, ...]
    """Node ids, as pytest takes them; they pass without the change."""

    def problem(self) -> str:
        """Why it cannot be played here; empty when it can."""
        file = ROOT / self.file
        count = file.read_text().count(self.text) if file.is_file() else 0
        if count != 1:
            return f"{self.file} has {count} times {self.text.strip()!r}; expected once"
        missing = [test for test in self.tests if not _is_there(test)]
        return f"there is no {missing[0]}" if missing else ""


def _is_there(test: str) -> bool:
    path, _, name = test.partition("::")
    if not (ROOT / path).is_file():
        return False
    functions = [each for each in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(each, ast.FunctionDef)]
    return any(each.name == name.partition("[")[0] for each in functions)


_RULES = "infra/keep/git_door/rules.py"
_PUSHES = "tests/keep/git_door/test_pushes.py"
_BUDGET = "tests/keep/model_door/test_budget.py"
_ADDRESSES = "infra/shared/network.py"
_JUDGE = "tests/keep/web_door/test_judge.py"
_SUCCESSION = "infra/keep/supervision/decide/succession.py"
_WATCHER = "tests/keep/supervision/test_decide.py"
_STEPS = "infra/shared/safe_files.py"
_SAFE_FILES = "tests/shared/test_safe_files.py"

MUTATIONS = (
    # The git door
    Mutation(
        "history-rewritten",
        "history only grows: a push drops no commit",
        _RULES,
        "    elif push.old is not None and not push.comes_from(push.old):\n",
        "    elif False:\n",
        (f"{_PUSHES}::test_forcing_is_refused",),
    ),
    Mutation(
        "branch-deleted",
        "the agent deletes no branch",
        _RULES,
        "    if not push.new:\n        yield",
        "    if False:\n        yield",
        (f"{_PUSHES}::test_deleting_is_refused",),
    ),
    Mutation(
        "propose-moves-main",
        "with autonomy 'propose' only the PM moves main",
        _RULES,
        '    if autonomy == "merge":\n',
        '    if autonomy != "frozen":\n',
        (f"{_PUSHES}::test_without_autonomy_only_the_pm_moves_main",),
    ),
    Mutation(
        "foreign-committer",
        "the agent commits in nobody else's name",
        _RULES,
        "    if commit.committer != AGENT:\n",
        "    if False:\n",
        (f"{_PUSHES}::test_nobody_commits_in_anothers_name",),
    ),
    Mutation(
        "key-pushed",
        "a push that carries a key is refused",
        _RULES,
        "    for each in push.found:\n",
        "    for each in ():\n",
        ("tests/keep/git_door/test_secrets.py::test_a_key_in_a_file_is_refused_by_kind_and_place",),
    ),
    Mutation(
        "large-file",
        "a file over limits.blob_bytes is refused",
        _RULES,
        "    for path, size in push.large:\n",
        "    for path, size in ():\n",
        (f"{_PUSHES}::test_what_a_commit_may_bring",),
    ),
    Mutation(
        "failed-verdict",
        "what the keep examined and found failing does not come onto main",
        "infra/keep/git_door/examined.py",
        "    elif not verdict.passed:\n",
        "    elif False:\n",
        ("tests/keep/git_door/test_examined.py::test_a_verdict_that_does_not_open_main",),
    ),
    Mutation(
        "protected-file",
        "the PM alone changes protected.files on main",
        _RULES,
        "        pattern = protecting_on_main(world.settings.protected.files, path)\n",
        "        pattern = None\n",
        ("tests/keep/git_door/test_protected.py::test_a_protected_file_is_not_changed_on_main",),
    ),
    Mutation(
        "only-the-tip-judged",
        "each commit of a push is judged, not its last alone",
        "infra/keep/git_door/push.py",
        "        return tuple(found)\n",
        "        return tuple(found[-1:])\n",
        (f"{_PUSHES}::test_what_a_commit_may_bring",),
    ),
    Mutation(
        "fsck-off",
        "git checks pushed objects: no tree holds a .git",
        "infra/keep/git_door/setup.py",
        '("receive.fsckObjects", "true")',
        '("receive.fsckObjects", "false")',
        ("tests/keep/git_door/test_bypasses.py::test_git_directories_in_disguise",),
    ),
    Mutation(
        "report-twice",
        "a report that was sent twice is written once, by its id",
        "infra/keep/git_door/report.py",
        "        if request.id in reported(git, AGENT):\n",
        "        if False:\n",
        ("tests/keep/git_door/test_page.py::test_a_report_is_one_commit_of_the_agents_and_comes_once",),
    ),
    Mutation(
        "ref-without-old-value",
        "a ref moves only from the commit that was seen: no commit of another is lost",
        "infra/keep/repository/bare_tip.py",
        'f"update {self._ref} {new} {old}"',
        'f"update {self._ref} {new}"',
        ("tests/shared/repository/test_tips.py::test_a_lost_race_is_false_and_moves_nothing",),
    ),
    # The model door and its ledger
    Mutation(
        "open-calls-not-counted",
        "calls under way count in the day's budget",
        "infra/keep/ledger/budgets.py",
        "spent + reserved + worst <=",
        "spent + worst <=",
        (f"{_BUDGET}::test_a_call_up_to_the_limit_is_allowed_and_one_more_is_not",),
    ),
    Mutation(
        "worst-case-not-reserved",
        "a call is made only when its worst case fits in the day's budget",
        "infra/keep/ledger/budgets.py",
        "spent + reserved + worst <=",
        "spent + reserved <=",
        (f"{_BUDGET}::test_a_call_up_to_the_limit_is_allowed_and_one_more_is_not",),
    ),
    Mutation(
        "call-without-line",
        "no call is made that the ledger has not taken",
        "infra/keep/model_door/accounts.py",
        "                await asyncio.to_thread(self._ledger.append, line)\n",
        "                pass\n",
        (f"{_BUDGET}::test_no_call_is_made_that_cannot_be_written_down",),
    ),
    Mutation(
        "line-not-synced",
        "the line of a call is on the disk before the call is made",
        "infra/keep/ledger/lines.py",
        "        if isinstance(line, Opened):\n            os.fsync(self._descriptor)\n",
        "",
        (f"{_BUDGET}::test_a_call_waits_for_the_disk_before_it_is_made_and_not_when_it_has_ended",),
    ),
    # The web door
    Mutation(
        "private-range-missing",
        "a private address is not reached",
        _ADDRESSES,
        "address.is_multicast or not address.is_global or ",
        "address.is_multicast or ",
        (f"{_JUDGE}::test_addresses_that_are_not_public",),
    ),
    Mutation(
        "wrapped-loopback",
        "this machine is not reached by an IPv6 address around 127.0.0.1",
        _ADDRESSES,
        "address.ipv4_mapped or (IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address)",
        "address.ipv4_mapped or address",
        (f"{_JUDGE}::test_addresses_that_are_not_public",),
    ),
    Mutation(
        "resolved-address-not-judged",
        "what a name or a redirect leads to is judged, not the name alone",
        "infra/keep/web_door/fetch.py",
        "        self._judge.let(target, tool, found, asked)\n",
        "",
        ("tests/keep/web_door/test_fetching.py::test_a_redirect_is_judged_as_what_the_agent_named",),
    ),
    Mutation(
        "closing-mark-kept",
        "no page ends the frame that it stands in",
        "infra/shared/frame.py",
        "    text = text.translate(_BRACKETS) if _BRACKET.search(text) else text\n",
        "",
        ("tests/keep/web_door/test_frame.py::test_nothing_ends_the_frame",),
    ),
    Mutation(
        "page-without-bound",
        "of a page no more is kept than the bound",
        "infra/keep/web_door/fetch.py",
        "        return bytes(came[: self._page_bytes]),",
        "        return bytes(came),",
        ("tests/keep/web_door/test_fetching.py::test_bodies_without_end",),
    ),
    Mutation(
        "served-without-trace",
        "no page is served without its line in the trace",
        "infra/keep/web_door/app.py",
        'raise unavailable(f"the request cannot be recorded',
        '_ = unavailable(f"the request cannot be recorded',
        ("tests/keep/web_door/test_life.py::test_nothing_is_served_without_its_line",),
    ),
    Mutation(
        "picture-read-without-frame",
        "what a model reads in a picture of the web stands in the frame",
        "infra/cell/tools/web.py",
        "framed(clip(words, limits.output_chars), made.origin, made.nonce)",
        "clip(words, limits.output_chars)",
        ("tests/cell/tools/test_eye.py::test_an_order_in_a_picture_stays_in_the_frame",),
    ),
    Mutation(
        "blocked-in-silence",
        "a page that is blocked, however it was read, is an error",
        "infra/cell/tools/web.py",
        "        if page.blocked and not given.raw:\n",
        "        if False:\n",
        ("tests/cell/tools/test_eye.py::test_normal_then_rendered_then_its_picture_then_an_error",),
    ),
    Mutation(
        "ghost-without-leave",
        "a job reads pictures only where it was given that",
        "infra/cell/bridge.py",
        "if not may_ghost and (tool.name == GHOST",
        "if False and (tool.name == GHOST",
        ("tests/cell/test_bridge.py::test_a_job_that_was_not_is_denied",),
    ),
    Mutation(
        "browser-believed",
        "where a browser says that a page is from is held against what was connected to",
        "infra/keep/web_door/app.py",
        "            if shown.origin not in errand.origins:",
        "            if not shown.origin:",
        ("tests/keep/web_door/test_rendered.py::test_a_browser_is_not_believed_where_it_was",),
    ),
    Mutation(
        "proxy-address-not-judged",
        "each request of a page in the browser is judged by the address that its name has now",
        "infra/keep/web_door/proxy.py",
        "        self._judge.let(target, errand.tool, found, errand.asked)\n",
        "",
        ("tests/keep/eye/test_proxy.py::test_a_name_that_changes_its_address_is_judged_again",),
    ),
    # The watcher
    Mutation(
        "blocked-version-forgotten",
        "a version that failed too often is not started again",
        _SUCCESSION,
        "    elif pin := state.pin_of(main.id):\n",
        "    elif pin := state.pin_of(state.drifted):\n",
        (f"{_WATCHER}::test_what_runs_when_main_is_pinned",),
    ),
    Mutation(
        "withdrawn-version-runs",
        "a version that the PM took back does not stand in for main",
        _SUCCESSION,
        "goods = goods[ids.index(main.id) :] if main.id in ids else goods",
        "goods = tuple(goods)",
        (f"{_WATCHER}::test_what_is_newer_than_a_good_version_that_main_holds_again_was_taken_back",),
    ),
    Mutation(
        "heart-not-compared",
        "a runner whose main loop hangs is ended",
        "infra/keep/services/hearts.py",
        "    if silent <= within:\n",
        "    if True:\n",
        ("tests/keep/supervision/test_services.py::test_a_promise_is_broken_after_its_time_alone",),
    ),
    Mutation(
        "sigterm-ignored",
        "SIGTERM stops the watcher in an orderly way: nobody is left behind",
        "infra/keep/supervision/wake.py",
        "        for number in (signal.SIGTERM, signal.SIGINT):\n",
        "        for number in (signal.SIGINT,):\n",
        ("tests/keep/supervision/test_watcher.py::test_a_stop_at_any_moment_of_the_start_is_orderly",),
    ),
    # Files of the cell
    Mutation(
        "links-followed",
        "the keep follows no link in the cell's tree",
        _STEPS,
        "_SAFE = os.O_NOFOLLOW | ",
        "_SAFE = ",
        (f"{_SAFE_FILES}::test_what_is_no_file_below_the_root_is_refused_at_once",),
    ),
    Mutation(
        "path-leads-out",
        "no path leads out of the cell's tree",
        _STEPS,
        '        if ".." in parts:\n',
        "        if False:\n",
        (f"{_SAFE_FILES}::test_what_is_no_file_below_the_root_is_refused_at_once",),
    ),
    Mutation(
        "read-as-ourselves",
        "the keep touches the cell's files with the cell's rights",
        "infra/shared/identity.py",
        '            _become(setfsuid, self.uid, "user")\n            yield\n',
        "            yield\n",
        (f"{_SAFE_FILES}::test_every_verb_acts_as_the_cell",),
    ),
    # The runner, and what is examined
    Mutation(
        "branchs-tests-for-mains",
        "a version is examined with main's tests, not with its own alone",
        "infra/keep/examination/examiner.py",
        "    mains = running.run(with_mains_tests, altered,",
        "    mains = running.run(candidate, altered,",
        ("tests/keep/examination/test_examination.py::test_what_the_pm_must_decide_is_said_before_all_else_is_run",),
    ),
    Mutation(
        "failed-test-passes",
        "a version that breaks a test has not passed",
        "infra/keep/verdicts/verdict.py",
        '        ([*(id for id in failed if _file(id) not in selection.altered), *own.failed()], "failed"),\n',
        "",
        ("tests/keep/examination/test_examination.py::test_a_change_that_breaks_a_test_does_not_pass",),
    ),
    Mutation(
        "not-validated-merges",
        "a version that did not pass is not merged",
        "infra/cell/life/hop.py",
        "            if not examined.passed:\n",
        "            if False:\n",
        ("tests/cell/life/test_hop.py::test_a_version_that_did_not_pass_is_not_merged",),
    ),
    Mutation(
        "main-moved-unseen",
        "a version is merged only into the main that it was examined with",
        "infra/cell/life/hop.py",
        '            raise MainMoved("main moved while it was examined")\n',
        "            pass\n",
        ("tests/cell/life/test_hop.py::test_main_that_moves_while_judging_is_judged_again",),
    ),
    Mutation(
        "private-host-allowed",
        "the policy denies a private address that no rule names",
        "infra/cell/policy/gate.py",
        "for host in sorted(call.hosts):",
        "for host in []:",
        ("tests/cell/policy/test_decide.py::test_private_addresses_are_denied_unless_a_rule_names_them",),
    ),
    Mutation(
        "link-hides-a-file",
        "a rule about a file holds for a link to it",
        "infra/cell/policy/gate.py",
        "for look in (os.path.abspath, os.path.realpath))",
        "for look in (os.path.abspath, os.path.abspath))",
        ("tests/cell/policy/test_decide.py::test_files_are_known_by_where_they_are",),
    ),
    Mutation(
        "log-not-redacted",
        "no key stands in a log",
        "infra/shared/log.py",
        "    shown: EventDict = redacted_value(_as_json(event))\n",
        "    shown: EventDict = _as_json(event)\n",
        ("tests/shared/test_redacted_file.py::test_the_runners_log_is_redacted",),
    ),
    Mutation(
        "events-origins",
        "an event carries what the keep saw served to its run, whatever the runner says",
        "infra/keep/mind/events.py",
        "metadata = msgspec.structs.replace(event.metadata, origins=origins(event.run_id))",
        "metadata = event.metadata",
        ("tests/keep/mind/test_events.py::test_origins_are_what_the_web_door_served_to_the_run",),
    ),
    Mutation(
        "websocket-not-judged",
        "who looks at the live picture has the token",
        "host/serve/access.py",
        '        if scope["type"] not in ("http", "websocket"):\n',
        '        if scope["type"] != "http":\n',
        ("tests/host/serve/test_stream.py::test_who_may_look",),
    ),
    Mutation(
        "websocket-of-another-page",
        "another page in the same browser opens no WebSocket with the cookie",
        "host/serve/access.py",
        'request.scope.get("method") not in SAFE_METHODS',
        'request.scope.get("method", "GET") not in SAFE_METHODS',
        ("tests/host/serve/test_stream.py::test_who_may_look",),
    ),
)
