"""Random programs of calls across Python, Lua and C: each stack is the log of the calls."""

import os

import programs
import pytest
import stacksplice
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shown_frames import shown

settings.register_profile(
    "short",
    max_examples=300,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile("long", parent=settings.get_profile("short"), max_examples=20000, derandomize=False)
settings.load_profile(os.environ.get("STACKSPLICE_PROPERTY_PROFILE", "short"))


def kinds(without=frozenset()):
    return st.sampled_from(
        [
            (language, kind)
            for language, all_of_it in programs.KINDS.items()
            for kind in all_of_it
            if (language, kind) not in without
        ]
    )


LEAVES = st.sampled_from(["python", "lua", "native"]).map(lambda lang: (lang, "plain", []))
TREES = st.recursive(
    LEAVES,
    lambda trees: st.tuples(kinds(), st.lists(trees, min_size=1, max_size=3)).map(
        lambda node: (*node[0], node[1])
    ),
    max_leaves=10,
)


@st.composite
def chains(draw):
    """One call in another, and an error at the end of it."""
    tree = draw(LEAVES)
    for language, kind in draw(st.lists(kinds(without=programs.CATCHING), max_size=10)):
        tree = (language, kind, [tree])
    return tree


def run(graph, tree):
    programs.Program(tree).load(graph)
    return graph.run(0)


@given(tree=TREES)
def test_the_stack_at_each_leaf_is_the_log(graph, tree):
    results = run(graph, tree)
    assert results
    for log, stack in results:
        wrong = programs.difference(log, stack)
        assert wrong is None, wrong


def as_stack(frames):
    return [
        (
            "gap" if frame.kind == "gap" else frame.language,
            frame.reason if frame.kind == "gap" else frame.function,
            frame.file,
            frame.line,
        )
        for frame in frames
    ]


@given(tree=chains())
def test_an_error_at_the_leaf_has_the_stack_of_the_log_and_a_node_for_each_border(graph, tree):
    programs.Program(tree, raising=True).load(graph)
    with pytest.raises(Exception) as caught:
        graph.run(0)
    ((log, _),) = graph.results()
    info = stacksplice.error_info(caught.value)
    stack = as_stack(info.stack)
    want = programs.script_frames(programs.expected(log))
    have = programs.script_frames(shown(stack, "graph_"))
    assert have == want, f"{have}\n{want}"
    borders = {"graph_from_python": "python", "graph_from_lua": "lua", "graph_root": "python"}
    assert [node.language for node in info.propagation] == [
        borders[name] for _, name, _ in reversed(log) if name in borders
    ]


# fmt: off
DEEP = ("python", "getattr", [("lua", "wrap", [("native", "recursive", [
    ("python", "generator", [("lua", "index", [("native", "sort", [("lua", "plain", [])])])])])])])
# fmt: on


def test_every_frame_that_is_dropped_or_swapped_is_found(graph):
    results = run(graph, DEEP)
    for log, stack in results:
        assert programs.difference(log, stack) is None
        places = [i for i in range(len(stack)) if shown(stack[i : i + 1], "graph_")]
        root = next(i for i in places if stack[i][1] == "graph_root")
        places = places[: places.index(root) + 1]
        for i, j in zip(places, places[1:]):
            assert programs.difference(log, stack[:i] + stack[i + 1 :])
            swapped = list(stack)
            swapped[i], swapped[j] = stack[j], stack[i]
            if shown([stack[i]], "graph_") != shown([stack[j]], "graph_"):
                assert programs.difference(log, swapped)
        assert programs.difference(log[:-1], stack)


@pytest.mark.parametrize("language", sorted(programs.KINDS))
def test_every_kind_below_and_above_every_language(graph, language):
    """Chance may leave a kind out: here each is called from each language, and calls each."""
    count = 0
    for other, all_of_it in programs.KINDS.items():
        for kind in all_of_it:
            tree = (language, "plain", [(other, kind, [(language, "plain", [])])])
            for log, stack in run(graph, tree):
                wrong = programs.difference(log, stack)
                assert wrong is None, f"{tree}: {wrong}"
                count += 1
    assert count >= sum(map(len, programs.KINDS.values()))
