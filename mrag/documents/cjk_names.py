"""Names that a text brings in, as far as a rule can tell one where no capital does: Chinese and Japanese."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

_HAN_WORD = re.compile("[\u3005-\u3007\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]{2,}")
_KATAKANA_WORD = re.compile("[\u30a1-\u30fa\u30fc]{2,}")
_TITLE = re.compile("《([^《》]+)》|〈([^〈〉]+)〉")
# Family names that hardly begin anything else, so that with one new character they are another person.
_FAMILY_NAMES = frozenset(
    "王李张刘陈杨赵吴徐孙朱胡郭罗郑梁谢宋唐韩冯邓曹彭肖袁潘蒋蔡杜苏魏吕沈姚卢姜崔谭汪廖贾韦邹孟秦邱尹薛闫"
    "侯陶黎贺郝龚邵覃戴孔汤張劉陳楊趙吳孫羅鄭謝韓馮鄧蕭蔣蘇呂盧譚賈韋鄒賀湯"
)
# What puts sentences together, and is no part of a name.
_LITTLE = frozenset(
    "的了是在有和与及或而但也都就被把将由从到向对为以于所其之这那该此各每个们一不没会能可要应已曾"
)
# Characters that foreign names are spelled with: two of them, both new, are one.
_SPELLING = frozenset(
    "阿埃艾奥巴贝彼博布达德蒂多厄恩尔法菲芬弗夫格哈赫霍基吉加杰卡凯科克库拉莱兰雷里丽利列林卢鲁伦洛玛迈麦"
    "曼梅蒙米莫姆纳娜内尼涅诺努欧帕佩皮普奇恰乔切茹萨塞桑沙莎史斯丝索塔泰坦汤特图托瓦韦维温沃乌西希肖雅亚"
    "耶伊英尤约扎詹兹佐顿姬戈"
)
# Well-known places, Japanese family names, Chinese ones of two characters.
_KNOWN_NAMES = re.compile(
    "|".join(
        """北京 上海 天津 重庆 广州 深圳 南京 杭州 苏州 武汉 成都 西安 沈阳 大连 青岛 厦门 长沙 郑州
        济南 哈尔滨 昆明 河北 山西 辽宁 吉林 黑龙江 江苏 浙江 安徽 福建 江西 山东 河南 湖北 湖南
        广东 海南 四川 贵州 云南 陕西 甘肃 青海 台湾 内蒙古 广西 西藏 宁夏 新疆 香港 澳门 台北 重慶
        廣州 瀋陽 遼寧 江蘇 廣東 貴州 雲南 臺灣 中国 美国 英国 法国 德国 日本 俄罗斯 韩国 印度
        意大利 西班牙 加拿大 澳大利亚 巴西 埃及 希腊 瑞典 荷兰 巴黎 伦敦 纽约 东京 柏林 罗马 莫斯科
        亚洲 欧洲 非洲 美洲 中國 美國 英國 法國 德國 韓國 倫敦 紐約 東京 京都 大阪 横浜 名古屋 神戸
        福岡 札幌 仙台 広島 千葉 埼玉 神奈川 北海道 沖縄 九州 四国 奈良 長崎 静岡 佐藤 鈴木 高橋
        田中 伊藤 渡辺 山本 中村 小林 加藤 吉田 山田 佐々木 山口 松本 井上 木村 斎藤 清水 山崎 池田
        橋本 阿部 石川 中島 前田 藤田 小川 後藤 岡田 長谷川 村上 近藤 石井 坂本 遠藤 青木 藤井 西村
        福田 欧阳 歐陽 诸葛 司马 慕容 皇甫""".split()  # noqa: SIM905
    )
)


def named_anew(source: str, text: str) -> frozenset[str]:
    """What `text` names and `source` does not.

    A new character after a Chinese family name; two new ones that spell foreign names; a well-known place, or
    Japanese family name; a word in katakana of which no two letters stand together in the source; the title
    of a work in its brackets. What is named otherwise is not seen, nor are names in other scripts.
    """
    if text.isascii():
        return frozenset()
    source, text = (unicodedata.normalize("NFKC", each) for each in (source, text))
    known = frozenset(source)
    names = (name for name in _KNOWN_NAMES.findall(text) if name not in source)
    return frozenset(
        (*_persons(known, source, text), *names, *_katakana(source, text), *_titles(source, text))
    )


def _persons(known: frozenset[str], source: str, text: str) -> Iterator[str]:
    for word in _HAN_WORD.findall(text):
        for before, one, other in zip("的" + word, word, word[1:], strict=False):
            if other in known or other in _LITTLE:
                continue
            # In `北宋` it is the end of another word, which the source has.
            family = one in _FAMILY_NAMES and (before in _LITTLE or before + one not in source)
            if family or (one not in known and {one, other} <= _SPELLING):
                yield one + other


def _katakana(source: str, text: str) -> Iterator[str]:
    for word in _KATAKANA_WORD.findall(text):
        if not any(one + other in source for one, other in pairwise(word)):
            yield word


def _titles(source: str, text: str) -> Iterator[str]:
    for match in _TITLE.finditer(text):
        title = next(filter(None, match.groups()))
        if title not in source:
            yield title
