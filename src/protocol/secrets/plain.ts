/** What stands in a secret's place and is none: types, calls, placeholders, counts. */
import { isMark } from "./found.ts";
import { isSecretName } from "./names.ts";

const WORD =
  /^(?:string|str|number|int|bool|boolean|true|false|null|nil|none|undefined|required|optional|object|array|any|bytes|text|varchar|uuid|self|this|os|process|env|config|usage|count|limit|name|type|value|import|from|return|const|your\S*|my[_-]\S*|change_?me|placeholder|example|x{3,}|\*{3,}|\.{3,}|…)$/i;
/** `${DB_PASSWORD}`, `{{ secret }}`, `<your key>`, `$TOKEN`, `%TOKEN%`, `sk-...`: where it will stand. */
const PLACEHOLDER =
  /^(?:\$\{[^}]*\}|\{\{[^}]*\}\}|<[^<>]*>|\$\([^)]*\)|\$[A-Za-z_]\w*|%[A-Za-z_]\w*%|[A-Z]+(?:_[A-Z]+)+|[\w-]{0,12}(?:\.{3}|…)`?)$/;
/** `os.environ.get(...)`, `tokens[0]`, `{`: code, where nothing is quoted. */
const CODE = /[(){}<>[\]]/;
const MEMBER = /^(?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*$/;
const PATH = /^(?:[~.]{0,2}\/)[\w.-]+(?:\/[\w.-]+){0,40}$/;

/** Whether this is where a file stands, and no secret itself. A long piece of base64 may begin with a slash, but has no ending. */
const isPath = (value: string): boolean => PATH.test(value) && /\.[a-z]{1,6}$|^[~.]/.test(value);

/** Whether a value is plainly no secret, whatever it is called. @param quoted whether it stood in quotes: code does not */
export const isPlainValue = (value: string, quoted: boolean): boolean =>
  isMark(value) ||
  WORD.test(value) ||
  PLACEHOLDER.test(value) ||
  isPath(value) ||
  (!quoted &&
    (CODE.test(value) ||
      (MEMBER.test(value) && (!/\d/.test(value) || isSecretName(value.slice(value.lastIndexOf(".")))))));
