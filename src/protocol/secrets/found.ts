/** What the finders of secrets answer. */

export type SecretKind =
  | "anthropic_key"
  | "openai_key"
  | "github_token"
  | "gitlab_token"
  | "slack_token"
  | "aws_key"
  | "google_key"
  | "huggingface_token"
  | "npm_token"
  | "stripe_key"
  | "sendgrid_key"
  | "hango_key"
  | "jwt"
  | "pem"
  | "authorization"
  | "cookie"
  | "url_credentials"
  | "named_secret"
  | "other_token";

/** A secret in a text: where it stands, in UTF-16 units, without the quotes or the name around it. */
export interface Found {
  readonly start: number;
  readonly end: number;
  readonly kind: SecretKind;
}

/** Finds secrets of some form, in linear time whatever the text. What it finds may overlap with what others find. */
export type Finder = (text: string) => readonly Found[];

/** What stands in a secret's place. No finder finds anything in it. */
export const mark = (kind: SecretKind): string => `[redacted ${kind}]`;

/** Whether a value is such a mark, or begins with one. */
export const isMark = (value: string): boolean => value.startsWith("[redacted");

/** Whether text is the base64 of `user:password`. */
export const isBasic = (base64: string): boolean => {
  try {
    return /^[\x20-\x7e]*:[\x20-\x7e]+$/.test(atob(base64));
  } catch {
    return false;
  }
};
