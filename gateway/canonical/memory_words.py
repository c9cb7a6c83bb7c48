"""Rule `memory`, its words: how prompts call what is remembered, and how an order about memories begins. Pure."""

from __future__ import annotations

from gateway.canonical import patterns
from gateway.canonical.fields import normal, pattern


def _labels(text: str) -> frozenset[str]:
    return frozenset(normal(label) for label in text.replace("\n", "|").split("|") if label.strip())


FACTS = _labels("""
    memory|memories|user memory|user memories|known facts|facts|recalled facts|relevant facts|remembered facts
    saved memories|long term memory
    long-term memory|short-term memory|relevant memories|recent memories|core memory|memory block|memory blocks
    memory context|recall
    recalled memories|user profile|profile|about the user|about user|user facts|user info|user information|user preferences
    what you know about the user|things you remember|what you remember|user context|persistent memory|memory snapshot
    memory notes
    memories about the user|facts about the user|user details|auto memory|working memory|episodic memory|semantic memory
    human|persona memory
    stored memories|user memories and facts|team memory|session memory|memories of the user|previous memories
    learned facts|learned preferences|notes about the user|user summary|conversation memory
    erinnerungen|gedächtnis|bekannte fakten|benutzerprofil|nutzerprofil|fakten|über den benutzer|über den nutzer
    mémoire|souvenirs|faits connus|profil utilisateur|profil de l'utilisateur|faits mémorisés|à propos de l'utilisateur
    memoria|memorias|recuerdos|hechos conocidos|perfil del usuario|perfil de usuario|sobre el usuario|datos recordados
    记忆|用户记忆|已知事实|用户画像|用户资料|长期记忆|相关记忆|用户档案|用户信息|記憶|メモリ|メモリー|ユーザープロフィール
    ユーザーの記憶|ユーザーについての記憶|既知の事実|ユーザー情報
    ユーザープロファイル|長期記憶
""")
PASSAGES = _labels("""
    retrieved passages|retrieved context|retrieved documents|retrieved chunks|retrieved information|retrieved knowledge
    search results
    relevant context|relevant documents|relevant passages|context documents|knowledge base results|rag context|sources|passages
    recalled passages|knowledge snippets|retrieved memories|recent conversations|conversation summary
    previous conversation summary
    conversation summary so far|summary so far|summary of the conversation|summary of the conversation so far
    session summary|recent activity|recent events|abgerufene passagen|gefundene dokumente|kontextdokumente|passages récupérés
    documents récupérés|contexte récupéré|pasajes recuperados|documentos recuperados|contexto recuperado|检索结果|检索内容
    检索到的内容
    相关文档
    参考资料|検索結果|取得した文書|関連文書|参考情報
""")

_FACTS_ABOUT = patterns.compile(
    r"^(?:(?:known|relevant|recalled|saved|stored|recent|user|long term|important|past|previous|personal|remembered"
    r"|current|core|key)\s)*"
    r"(?:(?:memory|memories|facts|recollections|user profile)\s(?:about|from|of|on|for)|(?:preferences|notes)\s(?:about"
    r"|from))\s(?:the |this |your |our |earlier |previous |past )?"
    r"(?:user|customer|client|person|guest|caller|patient|student|conversations?|sessions?|chats?|you|them|her|him|\w+)$"
    r"|^(?:here is |here's |this is )?what (?:you|i|we) (?:know|remember|have learned)(?: about .{1,30})?$|^(?:you"
    r"|i) remember(?: about .{1,30})?$"
    r"|^was du (?:uber|von) .{1,30} wei(?:ß|ss)t$|^(?:bekanntes|wissen|erinnerungen) (?:uber|an|zu|aus) .{1,30}$"
    r"|^ce que (?:tu sais|vous savez)(?: de| sur| a propos)?.{0,30}$|^souvenirs? (?:pertinents?|utiles?|recents?|de .{1,30})$"
    r"|^lo que (?:sabes|recuerdas)(?: de| del| sobre)?.{0,30}$|^(?:recuerdos|memorias) (?:relevantes|recientes|de .{1,30})$"
    r"|^(?:你)?(?:已知|记得|了解)的?.{0,12}(?:信息|事实|记忆)$|^关于.{1,12}的(?:记忆|信息|事实)$"
    r"|^.{0,12}について(?:知っている|覚えている)こと$|^(?:過去|以前)の.{0,8}記憶$"
)
_PASSAGES_FOUND = patterns.compile(
    r"^(?:retrieved|relevant|recalled|matching|found|supporting) (?:passages|documents|chunks|snippets|excerpts|context"
    r"|results|notes)(?: (?:for|about|from|to|on|of|in|matching|that match|so far)\b.{0,30})?$"
    r"|^(?:gefundene|abgerufene|relevante) (?:textstellen|passagen|dokumente|auszuge|abschnitte)$|^(?:passages|extraits"
    r"|documents) (?:trouves|recuperes|pertinents)$"
    r"|^(?:pasajes|fragmentos|documentos) (?:encontrados|recuperados|relevantes)$|^(?:检索到的|相关)(?:段落|文档|内容"
    r"|片段)$|^(?:検索された|関連する|取得した)(?:文書|文章|段落)$"
)

_ASKS = patterns.compile(
    r"(?i)\b(?:must|never|always|should|do not|don['’]t|make sure|ensure|niemals|immer|muss(?:t)?|jamais|toujours|nunca"
    r"|siempre)\b"
    r"|不得|必须|禁止|してください|しないこと"
)
_ORDERS = patterns.compile(
    r"(?i)^[\s\-*+•\d.)・]*(?:(?:always|never|do not|don['’]t|only|before|after|when|whenever|if|unless|save|store|search|call"
    r"|update"
    r"|delete|record|write (?:to|down|it|them)|you (?:must|should|can|may|have|are)|the agent (?:must|should|may)"
    r"|immer|niemals|nie|nur|bevor|wenn|falls|speichere|suche|lösche|du (?:musst|sollst|kannst|darfst)"
    r"|toujours|jamais|ne |n['’]|avant|si|quand|enregistre|cherche|efface|tu (?:dois|peux)"
    r"|siempre|nunca|no |solo|antes|si|cuando|guarda|busca|borra|debes|puedes)\b|不得|不要|必须|未经|每次|如果|保存|搜索)"
    r"|(?:しないこと|すること|してください|しない)[。.]?$|^[\s\-*+•]*(?:ne|n['’]|no) "
)
"""How a line begins that says what to do with memories, not what is remembered."""

HINTS = (
    pattern(FACTS | PASSAGES),
    r"(?i)(?:facts|memor(?:y|ies)|recollections|preferences|notes) (?:about|from|of|on|for) |what (?:you|i|we) (?:know"
    r"|remember|have)|remember about"
    r"|was du (?:[uü]ber|von)|bekanntes|erinnerungen|ce que (?:tu sais|vous savez)|souvenirs|lo que (?:sabes|recuerdas)"
    r"|recuerdos|memorias"
    r"|记得|已知|了解|关于|ている?こと|の記憶|記憶",
    r"(?i)(?:retrieved|relevant|recalled|matching|found|supporting) \pL+|gefundene|abgerufene|relevante|trouv[ée]s"
    r"|r[ée]cup[ée]r[ée]s|pertinents"
    r"|encontrados|recuperados|relevantes|检索到的|相关|検索された|関連する|取得した",
)


def is_known(label: str) -> bool:
    """Whether a normal label names something remembered or retrieved."""
    return is_facts(label) or label in PASSAGES or bool(_PASSAGES_FOUND.match(label))


def is_facts(label: str) -> bool:
    """Whether a normal label names facts, a set whose order says nothing; passages are ranked."""
    return label in FACTS or bool(_FACTS_ABOUT.match(label))


def begins_order(line: str) -> bool:
    """Whether a line begins as one that says what to do with memories."""
    return bool(_ORDERS.search(line))


def asks(line: str) -> bool:
    """Whether there is an order anywhere in a line."""
    return bool(_ASKS.search(line))
