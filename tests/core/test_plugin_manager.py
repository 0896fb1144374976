"""Plugins are found, checked, and matter only to those who select them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from batchwright.exceptions import ConfigError, PluginError
from batchwright.plugin import SchedulingPolicy, hookimpl
from batchwright.plugin_manager import PluginManager

SHORTEST = """
    from batchwright.plugin import SchedulingPolicy, hookimpl

    class Shortest(SchedulingPolicy):
        name = "{name}"

        def key(self, request):
            return request.num_prompt_tokens

    @hookimpl
    def batchwright_register_policy():
        return [Shortest]
"""


def policy_source(name: str = "shortest") -> str:
    return SHORTEST.format(name=name)


@pytest.fixture
def plugin_file(tmp_path: Path) -> Callable[..., Path]:
    """Write a single-file plugin."""

    def write(source: str, name: str = "my_policy.py") -> Path:
        path = tmp_path / name
        path.write_text(dedent(source))
        return path

    return write


def inspect(**arguments: object) -> PluginManager:
    """Only what a test brings, without the defaults."""
    return PluginManager.discover(**{"defaults": (), **arguments}, refuse_broken=False)


def only_fault(manager: PluginManager) -> str:
    assert len(manager.broken) == 1, [str(fault.error()) for fault in manager.broken]
    return str(manager.broken[0].error())


# What is found


def test_defaults_are_registered_like_any_other_plugin():
    manager = PluginManager.discover(defaults=("batchwright_plugins.policy",), refuse_broken=False)

    found = manager.find("policy", "fcfs")

    assert found.cls.name == "fcfs"
    assert (found.plugin, found.module) == ("policy", "batchwright_plugins.policy")
    assert found.distribution == "batchwright"
    assert found.path is None


def test_discover_finds_every_default_component_by_kind():
    kinds = {registration.kind for registration in PluginManager.discover().registrations()}

    assert {"policy", "gate", "limit", "victim", "preemption", "kv"} <= kinds
    assert {"hasher", "eviction", "executor", "attention", "command"} <= kinds


def test_entry_point_is_found_with_distribution_and_version(install_distribution):
    install_distribution(
        "bw-shortest", "2.1", entry_points={"shortest": "bw_short_a"}, bw_short_a=policy_source()
    )

    found = inspect().find("policy", "shortest")

    assert (found.plugin, found.module) == ("shortest", "bw_short_a")
    assert (found.distribution, found.version) == ("bw-shortest", "2.1")
    assert found.distribution_label == "bw-shortest 2.1"


def test_single_file_is_loaded_under_a_unique_name(plugin_file, tmp_path):
    first = plugin_file(policy_source("one"))
    (tmp_path / "other").mkdir()
    second = plugin_file(policy_source("two"), "other/my_policy.py")

    manager = PluginManager.discover([first, second], defaults=())

    one, two = manager.find("policy", "one"), manager.find("policy", "two")
    assert first == one.path
    assert second == two.path
    assert "my_policy" == one.plugin == two.plugin
    assert one.module != two.module
    assert sys.modules[one.module].Shortest is one.cls


def test_file_named_twice_is_loaded_once(plugin_file):
    path = plugin_file(policy_source())

    manager = PluginManager.discover([path, path.parent / "." / path.name], defaults=())

    assert [r.name for r in manager.registrations("policy")] == ["shortest"]


def test_extra_objects_are_registered():
    class Given(SchedulingPolicy):
        name = "given"

    class Plugin:
        @hookimpl
        def batchwright_register_policy(self):
            return [Given]

    manager = PluginManager.discover(defaults=(), extra=[Plugin()])

    assert Given is manager.find("policy", "given").cls
    assert manager.find("policy", "given").plugin == "Plugin-0"


def test_registrations_are_ordered_by_kind_and_name():
    registrations = PluginManager.discover().registrations()

    keys = [(r.kind, r.name) for r in registrations]
    assert sorted(keys) == keys
    assert [key for key in keys if key[0] == "gate"] == [
        (r.kind, r.name) for r in PluginManager.discover().registrations("gate")
    ]


def test_reading_plugins_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from batchwright.plugin_manager import PluginManager\n"
        "PluginManager.discover(defaults=('batchwright_cli.commands',), refuse_broken=False)\n"
        "heavy = {'torch', 'transformers', 'xformers', 'uvicorn', 'numpy', 'cattrs'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )

    assert result.stdout == "[]\n"


# disable


@pytest.mark.parametrize("name", ["shortest", "bw-shortest", "BW_Shortest"])
def test_disable_blocks_by_plugin_or_distribution(install_distribution, name):
    install_distribution(
        "bw-shortest", entry_points={"shortest": "bw_never"}, bw_never="raise SystemExit('no')"
    )

    manager = PluginManager.discover(disable=[name], defaults=())

    assert manager.broken == []
    assert "bw_never" not in sys.modules


@pytest.mark.parametrize("name", ["policy", "batchwright_plugins.policy", "batchwright"])
def test_disable_blocks_defaults(name):
    manager = PluginManager.discover(disable=[name], defaults=("batchwright_plugins.policy",))

    with pytest.raises(PluginError, match=re.escape("there is no policy 'fcfs'. Choices: none.")):
        manager.find("policy", "fcfs")


def test_disable_blocks_a_file(plugin_file):
    path = plugin_file("raise ValueError")

    assert PluginManager.discover([path], ["my_policy"], defaults=()).registrations() == []


def test_disable_of_an_unknown_name_is_an_error():
    with pytest.raises(ConfigError) as caught:
        PluginManager.discover(disable=["gate", "polcy"])

    assert caught.value.path == "plugins.disable[1]"
    assert "no plugin or distribution is named 'polcy'." in str(caught.value)
    assert "Did you mean 'policy'?" in str(caught.value)
    assert "batchwright_plugins.victim" in str(caught.value)


# find


def test_find_unknown_lists_choices_and_suggests():
    manager = PluginManager.discover(defaults=("batchwright_plugins.policy",), refuse_broken=False)

    with pytest.raises(PluginError) as caught:
        manager.find("policy", "fcsf", option="scheduler.policy")

    assert str(caught.value).startswith(
        "scheduler.policy: there is no policy 'fcsf'. Did you mean 'fcfs'? Choices: dlpm,"
    )
    assert "broken" not in str(caught.value)


def test_find_ambiguous_names_both_distributions_and_says_what_to_do(install_distribution):
    install_distribution("bw-a", entry_points={"a": "bw_dup_a"}, bw_dup_a=policy_source())
    install_distribution("bw-b", entry_points={"b": "bw_dup_b"}, bw_dup_b=policy_source())
    manager = PluginManager.discover(defaults=())

    with pytest.raises(PluginError) as caught:
        manager.find("policy", "shortest")

    message = str(caught.value)
    assert "the policy 'shortest' is offered by bw_dup_a (bw-a 1.0)" in message
    assert "and by bw_dup_b (bw-b 1.0)" in message
    assert "leave all but one out with plugins.disable (their names there: 'a', 'b')" in message
    enabled = PluginManager.discover(disable=["a"], defaults=())
    assert enabled.find("policy", "shortest").distribution == "bw-b"


def test_broken_plugin_stops_only_who_selects_what_it_prevents(install_distribution):
    install_distribution(
        "bw-broken", "0.3", entry_points={"broken": "bw_bad"}, bw_bad="import bw_not_there"
    )
    manager = PluginManager.discover(defaults=("batchwright_plugins.policy",))

    assert manager.find("policy", "fcfs")
    with pytest.raises(PluginError) as caught:
        manager.find("policy", "wanted")

    message = str(caught.value)
    assert "It may be missing because a plugin is broken: plugin 'broken'" in message
    assert "(bw-broken 0.3): cannot be imported: ModuleNotFoundError" in message
    assert "No module named 'bw_not_there'" in message
    assert re.search(r"bw_bad\.py, line 1\)", message)


def test_fault_of_another_kind_is_not_blamed(install_distribution):
    source = policy_source().replace("return [Shortest]", "raise RuntimeError('no')")
    install_distribution("bw-raises", entry_points={"raises": "bw_raises"}, bw_raises=source)
    manager = PluginManager.discover(defaults=())

    with pytest.raises(PluginError, match="RuntimeError: no"):
        manager.find("policy", "shortest")
    with pytest.raises(PluginError, match=re.escape("there is no gate 'shortest'. Choices: none.")):
        manager.find("gate", "shortest")


# What is offered by its place


OFFERED = """
    from batchwright.hookspecs import hookimpl
    from batchwright.lazy_component import LazyComponent

    @hookimpl
    def batchwright_register_policy():
        return [
            LazyComponent("shortest", "bw_shortest:{attribute}"),
            LazyComponent("other", "bw_other:Other"),
        ]
"""


@pytest.fixture
def offering(install_distribution: Callable[..., Path]) -> Callable[..., str]:
    """Lay down a plugin that offers a policy by its place; returns the plugin's module."""

    def write(attribute: str = "Shortest", name: str = "shortest") -> str:
        install_distribution(
            "offering",
            entry_points={},
            bw_offering=OFFERED.format(attribute=attribute),
            bw_shortest=policy_source(name),
        )
        return "bw_offering"

    return write


def test_what_is_offered_by_its_place_is_imported_when_it_is_selected(
    offering: Callable[..., str],
) -> None:
    manager = inspect(defaults=(offering(),))
    assert manager.names("policy") == ["other", "shortest"]
    assert "bw_shortest" not in sys.modules
    found = manager.find("policy", "shortest")
    assert (found.name, found.module, found.cls.__name__) == ("shortest", "bw_offering", "Shortest")
    assert manager.find("policy", "shortest") is found
    assert manager.broken == []  # the other one does not exist, but it was not asked for


def test_listing_imports_whatever_is_offered_and_notes_what_cannot_be(
    offering: Callable[..., str],
) -> None:
    manager = inspect(defaults=(offering(),))
    assert manager.registrations("gate") == []
    assert "bw_shortest" not in sys.modules
    assert [found.name for found in manager.registrations("policy")] == ["shortest"]
    assert "batchwright_register_policy: cannot be imported: ModuleNotFoundError" in only_fault(
        manager
    )
    with pytest.raises(
        PluginError, match=r"there is no policy 'other'.*No module named 'bw_other'"
    ):
        manager.find("policy", "other")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"attribute": "Longest"}, "AttributeError: module 'bw_shortest' has no attribute"),
        ({"name": "longest"}, "bw_shortest:Shortest is offered as 'shortest' and named 'longest'"),
        ({"attribute": "hookimpl"}, "bw_shortest:hookimpl is offered as 'shortest'"),
    ],
)
def test_an_offer_that_does_not_hold_says_why(
    offering: Callable[..., str], arguments: dict[str, str], expected: str
) -> None:
    manager = inspect(defaults=(offering(**arguments),))
    with pytest.raises(PluginError, match="there is no policy 'shortest'"):
        manager.find("policy", "shortest")
    assert expected in only_fault(manager)


def test_an_explicit_plugin_is_refused_if_an_offer_of_it_cannot_be_imported(
    plugin_file: Callable[..., Path],
) -> None:
    path = plugin_file(OFFERED.format(attribute="Shortest"), "offering.py")
    with pytest.raises(PluginError, match="ModuleNotFoundError: No module named 'bw_shortest'"):
        PluginManager.discover([path], defaults=())


def test_a_class_given_for_a_test_hides_an_offer_of_its_name(offering: Callable[..., str]) -> None:
    class Given(SchedulingPolicy):
        name = "shortest"

    manager = inspect(defaults=(offering(),)).with_component("policy", Given)
    assert manager.find("policy", "shortest").cls is Given
    assert manager.names("policy") == ["other", "shortest"]


# Broken plugins, one case a way of being broken


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "register_policy",
            "register_polcy",
            "batchwright_register_polcy: there is no such hook. "
            "Did you mean 'batchwright_register_policy'?",
        ),
        ("@hookimpl", "", "_register_policy: is not marked as a hook: decorate it with @hookimpl"),
        (
            "register_policy()",
            "register_policy(config)",
            "Argument(s) {'config'} are declared in the hookimpl but can not be found in "
            "the hookspec; hooks take no arguments",
        ),
        (
            "return [Shortest]",
            "raise KeyError('x')",
            "batchwright_register_policy: failed: KeyError: 'x'",
        ),
        (
            "return [Shortest]",
            "return Shortest",
            "object is not iterable; expected a list of classes",
        ),
        ("return [Shortest]", "return [Shortest(None, None)]", "derived from SchedulingPolicy"),
        (
            "return [Shortest]",
            "return [int]",
            "int is not derived from SchedulingPolicy; derive it",
        ),
        ("return [Shortest]", "return [Shortest, Shortest]", "named 'shortest': rename one"),
        ('name = "shortest"', "pass", 'Shortest has no name; add: name = "..."'),
        ('"shortest"', '"Shortest First"', "expected lower-case letters and digits"),
        (
            "name =",
            "Options = dict; name =",
            "Options is <class 'dict'>; expected an attrs class (use @attrs.frozen)",
        ),
        (
            "def key(self, request)",
            "def key(self)",
            "Shortest.key takes (self); it is called as (self, request)",
        ),
        ("def key", "async def key", "Shortest.key is async; it is called without await"),
        ("def key", "def kye", "Shortest.kye is never called. Did you mean 'key'?"),
        ("@hookimpl", "batchwright_api = '7'\n    @hookimpl", "asks for plugin API '7'"),
    ],
)
def test_broken_plugin_is_reported_with_the_fault_and_its_source(
    install_distribution, old, new, expected
):
    source = policy_source().replace(old, new)
    install_distribution("bw-fault", "1.2", entry_points={"fault": "bw_fault"}, bw_fault=source)

    message = only_fault(inspect())

    assert expected in message
    assert message.startswith("plugin 'fault' (bw-fault 1.2): ")
    assert message.endswith("[bw_fault]")


def test_supported_api_version_is_accepted(install_distribution):
    source = "batchwright_api = '1'\n" + dedent(policy_source())
    install_distribution("bw-api", entry_points={"api": "bw_api"}, bw_api=source)

    assert inspect().find("policy", "shortest")


def test_abstract_methods_are_named(plugin_file):
    path = plugin_file(
        """
        from batchwright.plugin import hookimpl
        from batchwright.protocols import Hasher

        class Half(Hasher):
            name = "half"

        @hookimpl
        def batchwright_register_hasher():
            return [Half]
        """
    )

    assert "Half lacks digest, which Hasher asks for" in only_fault(inspect(load=[path]))


def test_unresolvable_options_are_named(plugin_file):
    path = plugin_file(
        """
        from __future__ import annotations
        from attrs import frozen
        from batchwright.plugin import SchedulingPolicy, hookimpl

        @frozen
        class Options:
            weight: Decimal = 0

        class Weighted(SchedulingPolicy):
            name = "weighted"
            Options = Options

        @hookimpl
        def batchwright_register_policy():
            return [Weighted]
        """
    )

    assert "Weighted.Options: name 'Decimal' is not defined" in only_fault(inspect(load=[path]))


def test_sound_classes_of_a_broken_plugin_are_kept(install_distribution):
    source = policy_source().replace("[Shortest]", "[int, Shortest]")
    install_distribution("bw-partly", entry_points={"partly": "bw_partly"}, bw_partly=source)
    manager = inspect()

    assert "int is not derived" in only_fault(manager)
    assert manager.find("policy", "shortest")


def test_module_announced_twice_is_reported(install_distribution):
    install_distribution(
        "bw-twice", entry_points={"a": "bw_twice", "b": "bw_twice"}, bw_twice=policy_source()
    )
    manager = inspect()

    assert "is announced twice; keep one of its entry points" in only_fault(manager)
    assert manager.find("policy", "shortest")


def test_plugin_that_exits_on_import_is_reported(install_distribution):
    install_distribution(
        "bw-exit", entry_points={"exits": "bw_exit"}, bw_exit="raise SystemExit(3)"
    )

    assert "cannot be imported: SystemExit: 3" in only_fault(inspect())


# Files and objects that were asked for


def test_broken_file_always_stops_the_start(plugin_file):
    path = plugin_file("import bw_not_there", "broken_file.py")

    with pytest.raises(PluginError, match="cannot be imported: ModuleNotFoundError") as caught:
        PluginManager.discover([path], defaults=())

    assert str(path) in str(caught.value)
    assert not [name for name in sys.modules if "broken_file" in name]


def test_file_without_a_hook_is_told_the_lines_to_add(plugin_file):
    path = plugin_file(policy_source().partition("@hookimpl")[0])

    with pytest.raises(PluginError) as caught:
        PluginManager.discover([path], defaults=())

    message = str(caught.value)
    assert "class Shortest is never offered, since no hook returns it. Add:" in message
    assert (
        "    @hookimpl\n    def batchwright_register_policy():\n        return [Shortest]\n"
        in message
    )
    assert str(path) in message


def test_file_with_nothing_in_it_is_told_what_was_expected(plugin_file):
    with pytest.raises(PluginError, match="has no hooks: expected functions marked with"):
        PluginManager.discover([plugin_file("x = 1")], defaults=())


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gone.py", "gone.py does not exist"), ("notes.txt", "notes.txt is not a Python file")],
)
def test_path_that_is_no_python_file_is_refused(tmp_path, name, expected):
    (tmp_path / "notes.txt").write_text("")

    with pytest.raises(PluginError, match=expected):
        PluginManager.discover([tmp_path / name], defaults=())


def test_broken_object_always_stops_the_start():
    with pytest.raises(PluginError, match="plugin 'SimpleNamespace-0': has no hooks"):
        PluginManager.discover(defaults=(), extra=[SimpleNamespace()])


# Distributions whose metadata is broken

METADATA = b"Metadata-Version: 2.1\nName: bw-broken\nVersion: 1.0\n"


@pytest.mark.parametrize(
    ("metadata", "entry_points", "reason"),
    [
        (None, b"[batchwright]\nbad = bw_bad\n", "metadata"),
        (b"Metadata-Version: 2.1\nVersion: 1.0\n", b"[batchwright]\nbad = bw_bad\n", "no Name"),
        (
            METADATA.replace(b"bw-", b"bw-un"),
            b"[batchwright]\nbad = bw_bad\n",
            "the Name 'bw-unbroken'",
        ),
        (METADATA, b"[batchwright]\nbad bw_bad\n", "Error"),
        (METADATA, b"[batchwright]\nbad = \xff\xfe\x00\n", "UnicodeDecodeError"),
    ],
    ids=["no METADATA", "no Name", "other Name", "no sign", "no text"],
)
def test_broken_metadata_is_listed_with_its_folder_and_stops_nothing_else(
    metadata, entry_points, reason, install_distribution, tmp_path, monkeypatch
):
    install_distribution("bw-good", entry_points={"good": "bw_good"}, bw_good=policy_source())
    folder = tmp_path / "site" / "bw_broken-1.0.dist-info"
    folder.mkdir(parents=True)
    for name, data in (("METADATA", metadata), ("entry_points.txt", entry_points)):
        if data is not None:
            (folder / name).write_bytes(data)
    monkeypatch.syspath_prepend(folder.parent)

    manager = inspect()

    (fault,) = manager.broken
    assert (fault.plugin, fault.path) == ("bw_broken", folder)
    assert "its metadata cannot be read" in fault.message
    assert reason in fault.message
    assert manager.find("policy", "shortest").distribution == "bw-good"
    assert inspect(disable=["bw-broken"]).broken == []


def test_broken_metadata_of_others_is_none_of_our_business(tmp_path, monkeypatch):
    folder = tmp_path / "other-1.0.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_bytes(b"[console_scripts]\nother \xff\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert inspect().broken == []


def test_distribution_that_is_installed_twice_is_found_once(install_distribution):
    for version, name in (("1.0", "old"), ("2.0", "new")):
        source = {f"bw_{name}": policy_source(name)}
        install_distribution("bw-twice", version, entry_points={"x": f"bw_{name}"}, **source)

    manager = inspect()

    assert manager.names("policy") == ["new"]
    assert manager.broken == []


# Plugins that would end the program

EXITS = {
    "import": "raise {error}",
    "hook": "{hookimpl}\ndef batchwright_register_policy():\n    raise {error}",
    "listing": "{hookimpl}\ndef batchwright_register_policy():\n    yield 1\n    raise {error}",
    "getattr": "def __getattr__(name):\n    raise {error}",
}


@pytest.mark.parametrize("where", EXITS)
@pytest.mark.parametrize("error", ["SystemExit(0)", "Stop('no')"])
def test_exit_of_a_plugin_is_its_fault(where, error, plugin_file):
    begin = "from batchwright.plugin import hookimpl\nclass Stop(BaseException): ...\n"
    path = plugin_file(begin + EXITS[where].format(error=error, hookimpl="@hookimpl"))

    assert error.partition("(")[0] in only_fault(inspect(load=[path]))


def test_interrupt_is_no_fault_of_a_plugin(plugin_file):
    with pytest.raises(KeyboardInterrupt):
        inspect(load=[plugin_file("raise KeyboardInterrupt")])


@pytest.mark.parametrize("api", ["1", "'1'"])
def test_plugin_api_is_a_number_or_a_text(api, plugin_file):
    path = plugin_file(f"batchwright_api = {api}\n" + dedent(policy_source()))

    assert PluginManager.discover([path], defaults=()).names("policy") == ["shortest"]


@pytest.mark.parametrize("api", ["2", "1.0", "True", "'01'", "None"])
def test_plugin_api_that_is_not_ours_is_refused(api, plugin_file):
    path = plugin_file(f"batchwright_api = {api}\n" + dedent(policy_source()))

    expected = f"asks for plugin API {api}; this Batchwright has 1: install matching versions"
    assert expected in only_fault(inspect(load=[path]))
