/** Sorts of characters, as far as tokenizers treat them differently (E3). One byte per UTF-16 unit. */

/** Punctuation with a row of weights of its own; brackets and the rest share rows. */
const PUNCTUATION: Readonly<Record<string, string>> = {
  quote: '"',
  apostrophe: "'",
  backtick: "`",
  underscore: "_",
  hyphen: "-",
  dot: ".",
  comma: ",",
  slash: "/",
  backslash: "\\",
  colon: ":",
  semicolon: ";",
  equals: "=",
  star: "*",
  hash: "#",
  pipe: "|",
  open: "([{<",
  close: ")]}>",
  other: "!$%&+?@^~",
};

/** Blocks of Unicode: first unit, last unit, class. Later rows win. */
const BLOCKS: readonly (readonly [number, number, string])[] = [
  [0x00, 0x1f, "control"],
  [0x7f, 0x7f, "control"],
  [0x80, 0xbf, "latin1"],
  [0xc0, 0x36f, "latin"],
  [0xd7, 0xd7, "latin1"],
  [0xf7, 0xf7, "latin1"],
  [0x102, 0x103, "vietnamese"],
  [0x110, 0x111, "vietnamese"],
  [0x1a0, 0x1a1, "vietnamese"],
  [0x1af, 0x1b0, "vietnamese"],
  [0x370, 0x3ff, "greek"],
  [0x400, 0x52f, "cyrillic"],
  [0x402, 0x40f, "cyrillicOther"],
  [0x42a, 0x42a, "cyrillicOther"],
  [0x44a, 0x44a, "cyrillicOther"],
  [0x450, 0x45f, "cyrillicOther"],
  [0x451, 0x451, "cyrillic"],
  [0x490, 0x491, "cyrillicOther"],
  [0x530, 0x58f, "armenian"],
  [0x590, 0x5ff, "hebrew"],
  [0x600, 0x77f, "arabic"],
  [0x8a0, 0x8ff, "arabic"],
  [0x900, 0x97f, "devanagari"],
  [0x980, 0x9ff, "bengali"],
  [0xa00, 0xa7f, "gurmukhi"],
  [0xa80, 0xaff, "gujarati"],
  [0xb00, 0xb7f, "odia"],
  [0xb80, 0xbff, "tamil"],
  [0xc00, 0xc7f, "telugu"],
  [0xc80, 0xcff, "kannada"],
  [0xd00, 0xd7f, "malayalam"],
  [0xd80, 0xdff, "sinhala"],
  [0xe00, 0xe7f, "thai"],
  [0xe80, 0xeff, "lao"],
  [0xf00, 0xfff, "tibetan"],
  [0x1000, 0x109f, "myanmar"],
  [0x10a0, 0x10ff, "georgian"],
  [0x1100, 0x11ff, "hangul"],
  [0x1200, 0x139f, "ethiopic"],
  [0x1780, 0x17ff, "khmer"],
  [0x1e00, 0x1eff, "vietnamese"],
  [0x1f00, 0x1fff, "greek"],
  [0x2000, 0x206f, "typographic"],
  [0x2070, 0x2bff, "symbol"],
  [0x2500, 0x259f, "box"],
  [0x3000, 0x303f, "cjkPunctuation"],
  [0x3040, 0x309f, "hiragana"],
  [0x30a0, 0x30ff, "katakana"],
  [0x31f0, 0x31ff, "katakana"],
  [0x3400, 0x4dbf, "han"],
  [0x4e00, 0x9fff, "han"],
  [0xac00, 0xd7af, "hangul"],
  [0xd800, 0xdbff, "highSurrogate"],
  [0xdc00, 0xdfff, "lowSurrogate"],
  [0xf900, 0xfaff, "han"],
  [0xfb50, 0xfdff, "arabic"],
  [0xfe00, 0xfe0f, "variation"],
  [0xfe70, 0xfefe, "arabic"],
  [0xff00, 0xff20, "cjkPunctuation"],
  [0xff21, 0xffef, "wide"],
];

/** Common characters that only the traditional spelling of Chinese has, and to a part Japanese: tokenizers have seen less of them. */
const TRADITIONAL =
  "這個們來時會對說過還沒開關見問間門應該為與從後學國經現發實點體動無樣進種長東電話語記計設請謝讓認識讀寫買賣錢錯題類標準確選擇處據資訊號視窗檔連線網絡測試數庫總統結構歷級組給絕繼續約純紀錄壓縮遷將單獨轉" +
  "換邊車輛運輸萬億儲腦術產業務權機條場當幾麼嗎質貨費貴負責員變舊訂項鐘裝內兩幫圖頁歡樂愛親覺終義書華聽陳劉張楊趙吳誰調節隊階際險隨難雲靈頭顯頻額風飛飯館驗驚黨齊歲殺決況淚湯滿漢潔灣爾狀獎畫異療盡監盤眾禮" +
  "稱積穩競筆簡範築簽糧綠維緊練聯聲職臺興舉藝藥虛蟲裡複規訪証詞詳誤課論諸諾謀譯議護豐賓賽贊趕趨跡軟較載輕輪辦農達違遠適遲邏鄉醫釋針銀銷鋼鍵鎮鏡鐵閉閱陣陽隱雖雙離霧響頂順須預領頓顏願";

const NAMES: readonly string[] = [
  ...["unknown", "vowel", "consonant", "rare", "upper", "digit", "space", "newline", "tab"],
  ...Object.keys(PUNCTUATION),
  ...new Set(BLOCKS.map(([, , name]) => name)),
  "hanTraditional",
];

/** The classes by number. */
export const CLASS_NAMES: readonly string[] = NAMES;

export const isPunctuation = (name: string): boolean => Object.hasOwn(PUNCTUATION, name);

const table = (): Uint8Array => {
  const classes = new Uint8Array(0x10000);
  const mark = (characters: string, name: string): void => {
    for (const character of characters) classes[character.charCodeAt(0)] = NAMES.indexOf(name);
  };
  for (const [first, last, name] of BLOCKS) classes.fill(NAMES.indexOf(name), first, last + 1);
  mark(TRADITIONAL, "hanTraditional");
  mark("aeiou", "vowel");
  mark("bcdfghlmnprst", "consonant");
  mark("jkqvwxyz", "rare");
  mark("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "upper");
  mark("0123456789", "digit");
  mark(" ", "space");
  mark("\n\r", "newline");
  mark("\t", "tab");
  for (const [name, characters] of Object.entries(PUNCTUATION)) mark(characters, name);
  return classes;
};

/** The class of each UTF-16 unit. */
export const CLASS_OF: Uint8Array = table();
