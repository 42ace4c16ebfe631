"""Messages of compilers, linkers and systems in other languages than English."""

import re

# What gcc, ld, glibc, cmd.exe and Windows print under German, French, Spanish, Chinese, Japanese,
# Korean and Russian locales.
# The texts are those of the message catalogues of these programs.
_PHRASES = {
    "fatal error:": (
        *("schwerwiegender Fehler:", "erreur fatale :", "erreur fatale:", "error fatal:"),
        *("致命错误:", "致命的エラー:", "치명적 오류:", "фатальная ошибка:"),
    ),
    "error:": (*("Fehler:", "erreur :", "erreur:", "错误:", "エラー:", "오류:", "ошибка:"),),
    "No such file or directory": (
        *("Datei oder Verzeichnis nicht gefunden", "Aucun fichier ou dossier de ce type"),
        *("Aucun fichier ou dossier de ce nom", "No existe el archivo o el directorio"),
        *("No existe el fichero o el directorio", "没有那个文件或目录", "沒有此一檔案或目錄"),
        *("そのようなファイルやディレクトリはありません", "그런 파일이나 디렉터리가 없습니다"),
        "Нет такого файла или каталога",
    ),
    "Permission denied": (
        *("Keine Berechtigung", "Permission non accordée", "Permiso denegado", "权限不够"),
        *("許可がありません", "허가 거부", "Отказано в доступе"),
    ),
    "Access is denied": ("Zugriff verweigert", "Accès refusé", "Acceso denegado", "拒绝访问"),
    "is not recognized as an internal": (
        *("ist entweder falsch geschrieben oder", "n'est pas reconnu en tant que commande"),
        *(
            "no se reconoce como un comando interno",
            "不是内部或外部命令",
            "は、内部コマンドまたは外部コマンド",
        ),
        "не является внутренней или внешней",
    ),
    "The specified module could not be found": (
        *("Das angegebene Modul wurde nicht gefunden", "Le module spécifié est introuvable"),
        *("No se puede encontrar el módulo especificado", "找不到指定的模块"),
        *("指定されたモジュールが見つかりません", "Не найден указанный модуль"),
    ),
    "The specified procedure could not be found": (
        *("Die angegebene Prozedur wurde nicht gefunden", "La procédure spécifiée est introuvable"),
        *("No se encontró el proceso especificado", "找不到指定的程序"),
        *("指定されたプロシージャが見つかりません", "Не найдена указанная процедура"),
    ),
}
_BY_TEXT = {text: phrase for phrase, texts in _PHRASES.items() for text in texts}
# The longest first: "erreur fatale :" holds "erreur".
_ANY = re.compile("|".join(map(re.escape, sorted(_BY_TEXT, key=len, reverse=True))))
# The linker's, whose words stand around the name of the library.
_NO_LIBRARY = re.compile(
    r"(?:impossible de trouver|no se puede encontrar|找不到|невозможно найти) (?P<first>-l[\w.+-]+)"
    r"|(?P<second>-l[\w.+-]+) (?:kann nicht gefunden werden|が見つかりません|를 찾을 수 없습니다)"
    r"|kann (?P<third>-l[\w.+-]+) nicht finden"
)
# French has a space in front of a colon, Chinese a wide one.
_COLON = re.compile(r"(?<=\w) : |：\s?")


def translated(log: str) -> str:
    """Return a log with the English form of the messages that have one; lines stay the same."""
    lines = []
    for line in log.split("\n"):
        line = line.replace("错误：", "错误: ")
        if _ANY.search(line) or _NO_LIBRARY.search(line):
            line = _NO_LIBRARY.sub(lambda match: f"cannot find {match[match.lastgroup or 0]}", line)
            line = _COLON.sub(": ", _ANY.sub(lambda match: _BY_TEXT[match[0]], line))
        lines.append(line)
    return "\n".join(lines)
