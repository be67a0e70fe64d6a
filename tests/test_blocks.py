"""What a phone makes of printed lines: texts continue under their beginning, rows of tables stay whole."""

import pytest

from tests.scripts import of_docs

BLOCKS = of_docs("blocks")


def printed(*lines: str) -> str:
    """A block of the site with a command and what it prints."""
    command = '<span class="gp">$ </span>perfmodel<span class="w"> </span>whatif'
    return "\n".join([command, *(f'<span class="go">{line}</span>' for line in lines), "</code>"])


def test_a_command_wraps_apart_from_its_output() -> None:
    fitted = BLOCKS.fitted(printed("fits"))
    assert '<span class="command">perfmodel<span class="w"> </span>whatif</span>\n' in fitted


def test_lines_of_one_text_join_under_its_beginning() -> None:
    fitted = BLOCKS.fitted(
        printed("why         an iteration saves (limited by", "            KV) and adds 22 ms")
    )
    text = 'why         an iteration saves (limited by<span class="break">\n</span>KV) and adds 22 ms'
    assert f'<span class="go words" style="--column: 12ch">{text}</span>\n' in fitted


def test_only_a_full_line_joins_the_next_one_where_there_is_no_label() -> None:
    full = "x" * 80
    assert BLOCKS.wrapped([full, "tokens more"]).count("words") == 1
    assert BLOCKS.wrapped(["short", "tokens more"]).count("words") == 2


def test_flags_of_blocks_and_sentences_stay_whole_and_code_is_kept() -> None:
    flag = '<span class="flag">--tp</span>'
    assert BLOCKS.flagged("<pre><code>a --tp 2\n</code></pre>") == f"<pre><code>a {flag} 2\n</code></pre>"
    assert BLOCKS.flagged('<p id="x--tp">see --tp.</p>') == f'<p id="x--tp">see {flag}.</p>'
    kept = (
        "<code>--tp</code>",
        "<p>non-empty, 2 --&gt; 3, self-</p>",
        '<p title="see --tp"></p>',
        "a&#124;-b",
    )
    for other in kept:
        assert BLOCKS.flagged(other) == other


def test_rows_of_a_table_stay_whole() -> None:
    lines = [" batch   context   gamma", " ──────────────────────", " 1          8192       3"]
    assert BLOCKS.wrapped(lines).count('class="row"') == 3


def test_no_character_is_lost() -> None:
    lines = ["KV &gt; 1  is more", "", "a  b  c", "  indented"]
    text = '<div class="language-text highlight"><pre><span></span><code>' + "\n".join(lines) + "\n</code>"
    fitted = BLOCKS.fitted(text)
    assert [line for line in lines if line not in fitted] == []
    assert fitted.count("\n") == len(lines)


def test_a_long_choice_in_a_table_may_break_before_each_value() -> None:
    row = "<td><code>{}</code></td>"
    of_choice = "self&#124;{}KIND&#124;{}PATH"
    broken = of_docs("breaks").broken
    assert broken(row.format(of_choice.format("", ""))) == row.format(of_choice.format("<wbr>", "<wbr>"))
    assert broken(row.format("N&#124;auto")) == row.format("N&#124;auto")


def test_a_specification_in_a_table_may_break_between_its_options() -> None:
    row = '<td style="text-align: left;"><code>eagle:features=3,vocab=32000</code></td><p>a,b=c</p>'
    kept = '<td style="text-align: left;"><code>eagle:features=3,<wbr>vocab=32000</code></td><p>a,b=c</p>'
    assert of_docs("breaks").broken(row) == kept


def test_flags_and_short_words_of_code_stay_whole_and_long_code_may_break() -> None:
    pytest.importorskip("mkdocs")
    page = "<td><code>--num-speculative-tokens</code>, <code>-g</code> <code>N|auto</code></td>"
    assert of_docs("hooks").on_page_content(page) == page.replace("<code>", '<code class="whole">')
    for long in ("perfmodel models list", "nvidia/Llama-3.3-70B-Instruct-FP8"):
        assert (
            of_docs("hooks").on_page_content(f"<p><code>{long}</code></p>") == f"<p><code>{long}</code></p>"
        )
