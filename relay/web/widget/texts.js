/**
 * What the widget says. `{agent}`, `{time}`, `{n}` and `{text}` are filled in. Every text can be replaced by its name.
 */
const LANGUAGES = ["en", "de", "ja", "ar"];

const TEXTS = {
  up: ["Helpful", "Hilfreich", "役に立った", "مفيد"],
  down: ["Not helpful", "Nicht hilfreich", "役に立たなかった", "غير مفيد"],
  several: [
    "Several specialists contributed. Rate each by itself: only that one receives the rating.",
    "Mehrere Spezialisten haben beigetragen. Bewerten Sie jeden für sich: Nur er erhält die Bewertung.",
    "複数の専門エージェントが関わっています。評価は本人にのみ届くため、個別に評価してください。",
    "شارك عدة متخصصين. قيّم كلًا منهم على حدة: يصل التقييم إليه وحده.",
  ],
  reasons: ["Reasons (optional)", "Gründe (freiwillig)", "理由（任意）", "الأسباب (اختياري)"],
  comment: ["Comment (optional)", "Kommentar (freiwillig)", "コメント（任意）", "تعليق (اختياري)"],
  readers: [
    "Read by the team of {agent} and the operators here.",
    "Gelesen vom Team von {agent} und vom Betrieb hier.",
    "{agent}のチームと運用者が読みます。",
    "يقرؤه فريق {agent} والمشغّلون.",
  ],
  days: ["Kept for days: {n}.", "Aufbewahrung in Tagen: {n}.", "保存日数：{n}。", "مدة الحفظ بالأيام: {n}."],
  always: ["Kept without limit.", "Unbegrenzt aufbewahrt.", "無期限に保存されます。", "يُحفظ دون حد زمني."],
  send: ["Send", "Senden", "送信", "إرسال"],
  close: ["Close", "Schließen", "閉じる", "إغلاق"],
  undo: ["Undo", "Rückgängig", "元に戻す", "تراجع"],
  retry: ["Try again", "Erneut versuchen", "再試行", "إعادة المحاولة"],
  undoing: ["It will be sent in a moment.", "Wird gleich gesendet.", "まもなく送信されます。", "سيُرسل بعد لحظات."],
  sending: ["Sending …", "Wird gesendet …", "送信中…", "جارٍ الإرسال…"],
  unsent: ["Not sent yet, waiting since {time}.", "Noch nicht gesendet, wartet seit {time}.", "未送信です。{time}から待機しています。", "لم يُرسل بعد، في الانتظار منذ {time}."],
  pending: [
    "Stored, not delivered to {agent} yet, waiting since {time}.",
    "Angenommen, {agent} noch nicht zugestellt, wartet seit {time}.",
    "受け付けましたが、{agent}には未配信です。{time}から待機しています。",
    "تم الاستلام ولم يُسلَّم بعد إلى {agent}، في الانتظار منذ {time}.",
  ],
  next: ["Next try: {time}.", "Nächster Versuch: {time}.", "次の試行：{time}。", "المحاولة التالية: {time}."],
  saved: ["Saved by {agent}.", "Von {agent} gespeichert.", "{agent}が保存しました。", "حفظه {agent}."],
  locked: ["Ratings are not edited.", "Bewertungen werden nicht geändert.", "評価は変更できません。", "لا تُعدَّل التقييمات."],
  rejected: ["Not accepted by {agent}.", "Von {agent} nicht angenommen.", "{agent}が受理しませんでした。", "لم يقبله {agent}."],
  exhausted: ["Not delivered: {agent} could not be reached.", "Nicht zugestellt: {agent} war nicht erreichbar.", "未配信：{agent}に接続できませんでした。", "لم يُسلَّم: تعذر الوصول إلى {agent}."],
  abandoned: ["Not delivered: stopped here.", "Nicht zugestellt: hier beendet.", "未配信：中止されました。", "لم يُسلَّم: أُوقف هنا."],
  erased: ["This rating was erased.", "Diese Bewertung wurde gelöscht.", "この評価は削除されました。", "تم محو هذا التقييم."],
  refused: ["Not accepted: {text}", "Nicht angenommen: {text}", "受理されませんでした：{text}", "لم يُقبل: {text}"],
  elsewhere: [
    "Rated elsewhere first: that rating stands, this one was not sent.",
    "Zuerst anderswo bewertet: Jene Bewertung gilt, diese wurde nicht gesendet.",
    "先に別の場所で評価済みのため、今回の評価は送信されません。",
    "سبق التقييم من مكان آخر، ولم يُرسل هذا.",
  ],
  lost: ["Your comment that was not sent:", "Ihr nicht gesendeter Kommentar:", "送信されなかったコメント：", "تعليقك الذي لم يُرسل:"],
  resolution: ["Reply of {agent}:", "Antwort von {agent}:", "{agent}からの返答：", "رد {agent}:"],
  task_not_finished: ["{agent} is still working.", "{agent} arbeitet noch.", "{agent}は作業中です。", "ما زال {agent} يعمل."],
  feedback_not_supported: ["{agent} does not take feedback.", "{agent} nimmt keine Bewertungen an.", "{agent}は評価を受け付けていません。", "لا يستقبل {agent} التقييمات."],
  setup: ["Ratings are not set up here.", "Bewertungen sind hier nicht eingerichtet.", "評価機能が設定されていません。", "لم يتم إعداد التقييمات هنا."],
  unreachable: ["Ratings cannot be reached now.", "Bewertungen sind nicht erreichbar.", "現在、評価機能に接続できません。", "يتعذر الوصول إلى التقييمات الآن."],
  signed_out: ["Sign in again to rate.", "Melden Sie sich zum Bewerten neu an.", "評価するには再度ログインしてください。", "سجّل الدخول مجددًا للتقييم."],
  answer_not_found: ["Nothing of yours to rate here.", "Hier ist für Sie nichts zu bewerten.", "評価できる回答はありません。", "لا يوجد هنا ما تقيّمه."],
};

/** The widget's words in one language: `tag` is the page's (BCP 47), `own` replaces texts by name. */
export class Words {
  constructor(tag, own) {
    const at = LANGUAGES.indexOf(tag.toLowerCase().split("-")[0]);
    this.tag = at < 0 && !own ? "en" : tag;
    this.direction = /^(ar|fa|he|ur)\b/i.test(this.tag) ? "rtl" : "ltr";
    this.of = (name) => own?.[name] ?? TEXTS[name]?.[Math.max(at, 0)] ?? "";
  }

  /** A text with its blanks filled in; "" where there is none of this name. */
  say(name, blanks) {
    return this.of(name).replace(/\{(\w+)\}/g, (blank, key) => blanks?.[key] ?? blank);
  }

  /** A moment as this language writes it. */
  time(moment) {
    return new Date(moment).toLocaleString(this.tag, { dateStyle: "medium", timeStyle: "short" });
  }
}
