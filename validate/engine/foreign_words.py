"""Replaces words about speeds, drafts and load in Chinese, Japanese and German by the English words that the
readers of texts know.
"""

import re

_WIDE = str.maketrans("（）：，。；％＝｜、", "():,.;%=|,")
"""Punctuation of Chinese and Japanese, and its ASCII form."""
_CHINESE = {
    "(?:不|未|没|没有)(?:开启|打开|启用|使用|开|用|带|加)|关闭|关掉": " without ",
    "無し|なし|無効": " without ",
    "开启|打开|启用|使用|开了|有り|あり|有効": " with ",
    "基线|基準|ベースライン": " baseline ",
    "(?:并发|並發|同時実行)(?:请求)?数?量?|并行数|同時リクエスト数": " concurrency ",
    "(?:平均)?(?:接受|採択|受理)(?:的)?(?:长度|長度|長)": " accept length ",
    "(?:平均)?(?:接受|採択|受理)率": " accept rate ",
    "(?:总|總|合計)?(?:吞吐量?|スループット)": " throughput ",
    "(?:每|单)(?:个)?(?:请求|用户)": " per request ",
    "(?:生成|解码|解碼|输出|デコード|出力)速度": " decode speed ",
    "(?:提示词?|输入|輸入|入力)(?:长度|長度|長)?": " input ",
    "(?:输出|輸出|出力)(?:长度|長度|長)?": " output ",
    "(?:投机|推测|推測)(?:解码|采样|解碼|デコード)": " speculative decoding ",
    "草稿(?:长度|長度)": " gamma ",
    r"(?:个)?(?:tokens?|词元|トークン)\s*(?:/|每|毎)\s*秒": " tokens/s ",
    "上下文(?:长度)?": " context ",
    "批(?:次)?大小": " batch size ",
}
_GERMAN = {r"\b[Oo]hne\b": "without", r"\b[Mm]it\b": "with", r"\bAkzeptanz(?:rate)?\b": "accept rate"}
_NOT_ASCII = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_IS_GERMAN = re.compile(r"\b(?:[Oo]hne|Akzeptanz)\b")


def in_english(text: str) -> str:
    """The text with these words in English. Any other text is returned unchanged."""
    words: dict[str, str] = {}
    if _NOT_ASCII.search(text):
        text = text.translate(_WIDE)
        words |= _CHINESE
    if _IS_GERMAN.search(text):
        words |= _GERMAN
    for foreign, english in words.items():
        text = re.sub(foreign, english, text)
    return text
