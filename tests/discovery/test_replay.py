"""A run's commands again: what came out differently, and what a run that somebody else made cannot do."""

from __future__ import annotations

import json
import os
import signal

from tests.discovery.fake import SECONDS, Fake, wait_for
from tests.discovery.site import block


def list_world(fake: Fake) -> None:
    """Put a list of what can be known beside the world."""
    (fake.place / "known.json").write_text('{"version": 1}')


def test_a_replay_tells_step_by_step_what_came_out_differently(fake: Fake) -> None:
    list_world(fake)
    fake.run(
        block("echo same") + block("cat clock 2>&1 || echo 1 | tee clock; exit 3") + block("cat /dev/null; cat clock")
    )
    run = fake.only_run()
    ended = fake.run("", f"--replay={run}")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout == "step 1: same\nstep 2: same\nstep 3: same\n3 commands, 0 came out differently\n"
    events = (run / "events.jsonl").read_text()
    (run / "events.jsonl").write_text(
        events.replace('"same\\n"', '"same\\nand more\\n"').replace('"exit_code": 3', '"exit_code": 0') + '{"t": 1, "pl'
    )
    ended = fake.run("", f"--replay={run}", "--network=none")
    assert ended.returncode == 1
    assert "1 line of events.jsonl is cut" in ended.stdout
    assert "step 1: stdout: line 2: 'and more' -> ''\n" in ended.stdout
    assert "step 2: exit code 0 -> 3\n" in ended.stdout
    assert "3 commands, 2 came out differently\n" in ended.stdout
    made = (fake.place / "made").read_text().splitlines()
    names = {words.split(" --name ")[1].split()[0] for words in made}
    assert len(names) == 2, "each in a fresh container"
    assert "--network none" in made[1]
    removed = (fake.place / "removed").read_text()
    assert all(f"-f {name}\n" in removed and f"volume rm -f {name}\n" in removed for name in names)


def test_a_run_of_another_version_is_refused(fake: Fake) -> None:
    fake.run(block("echo x"))
    file = fake.only_run() / "meta.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": 2}))
    ended = fake.run("", f"--replay={fake.only_run()}")
    assert ended.returncode == 5
    assert "is a run of version 2, and this program reads version 1" in ended.stderr


def test_a_replay_that_is_ended_removes_its_container(fake: Fake) -> None:
    """By SIGTERM, as when its terminal is closed."""
    list_world(fake)
    fake.run(block("echo $$ >begun; [ -e ../once ] || exit 0; exec sleep 1000"))
    (fake.home / "begun").unlink()
    (fake.place / "once").touch()
    with fake.begin(f"--replay={fake.only_run()}") as process:
        wait_for(fake.home / "begun")
        process.terminate()
        process.communicate(timeout=SECONDS)
    os.kill(int((fake.home / "begun").read_text()), signal.SIGKILL)  # as the container's end does
    assert process.returncode == 128 + signal.SIGTERM
    (made,) = (fake.place / "made").read_text().splitlines()
    name = made.split(" --name ")[1].split()[0]
    assert f"volume rm -f {name}\n" in (fake.place / "removed").read_text()


def test_a_replay_mounts_no_directory_because_a_run_says_so(fake: Fake) -> None:
    """The run may be somebody else's, and send the files of this machine away."""
    fake.run(block("cat /world/*"))
    ended = fake.run("", f"--replay={fake.only_run()}")
    assert ended.returncode == 5
    assert "nothing shows that this is a world" in ended.stderr
    assert not (fake.place / "made").exists()
    ended = fake.run("", f"--replay={fake.only_run()}", f"--world={fake.place}/world")
    assert ended.returncode == 0, ended.stderr


def test_a_replay_of_a_meta_that_is_not_understood_says_so(fake: Fake) -> None:
    list_world(fake)
    fake.run(block("echo x"))
    file = fake.only_run() / "meta.json"
    meta = json.loads(file.read_text())
    for key, value in {"limits": 3, "world": [1], "image": "no image"}.items():
        file.write_text(json.dumps(meta | {key: value}))
        ended = fake.run("", f"--replay={fake.only_run()}")
        assert ended.returncode in (4, 5), key
        assert ended.stderr.startswith("discovery: "), ended.stderr


def test_a_replay_without_the_image_says_how_to_build_it(fake: Fake) -> None:
    list_world(fake)
    fake.run(block("echo x"))
    file = fake.only_run() / "meta.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"image": "lost"}))
    ended = fake.run("", f"--replay={fake.only_run()}")
    assert ended.returncode == 4
    assert "there is no image lost to play the run in. Build it: " in ended.stderr
