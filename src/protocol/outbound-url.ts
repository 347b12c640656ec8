/**
 * Which URLs hango may call on a caller's behalf (HTTP tools, callbacks): never into a private network or at the platform's own
 * metadata. Checked when a URL is given and again when it is called. A name that resolves to a private address is the network's
 * matter: a Worker's fetch reaches the public internet only.
 */

/** Names that mean this machine or this network wherever they are resolved (RFC 6761, RFC 6762, RFC 8375, and by custom). */
const PRIVATE_NAMES = [
  "localhost",
  "local",
  "internal",
  "intranet",
  "lan",
  "home",
  "corp",
  "localdomain",
  "home.arpa",
  "invalid",
  "onion",
];

/** IPv4 ranges that are not the public internet (IANA special-purpose registry): first address and prefix length. */
const PRIVATE_V4: readonly (readonly [string, number])[] = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
  // Alibaba Cloud's and Azure's metadata services, which are in public ranges.
  ["100.100.100.200", 32],
  ["168.63.129.16", 32],
];

const v4Number = (address: string): number => address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);

const isPrivateV4 = (address: number): boolean =>
  PRIVATE_V4.some(([first, prefix]) => {
    const size = 2 ** (32 - prefix);
    return Math.floor(address / size) === Math.floor(v4Number(first) / size);
  });

/** The eight groups of an IPv6 address as `URL` writes it: compressed, without a dotted tail. */
const v6Groups = (address: string): readonly number[] => {
  const [head = "", tail] = address.split("::");
  const parse = (text: string): number[] =>
    text === "" ? [] : text.split(":").map((group) => Number.parseInt(group, 16));
  const before = parse(head);
  const after = tail === undefined ? [] : parse(tail);
  return [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after];
};

/** Only global unicast (2000::/3) is the internet; of it, what carries or tunnels an IPv4 address, and documentation, is refused too. */
const isPrivateV6 = (address: string): boolean => {
  const groups = v6Groups(address);
  const [first = 0, second = 0] = groups;
  const v4At = (index: number): number => (groups[index] ?? 0) * 65_536 + (groups[index + 1] ?? 0);
  // NAT64 (64:ff9b::/96) reaches the IPv4 internet: it is as private as the address inside.
  if (first === 0x64 && second === 0xff9b && groups.slice(2, 6).every((group) => group === 0))
    return isPrivateV4(v4At(6));
  if (first < 0x2000 || first > 0x3fff) return true;
  if (first === 0x2002) return isPrivateV4(v4At(1)); // 6to4
  if (first === 0x2001 && (second === 0 || second === 0xdb8)) return true; // Teredo, documentation
  return first === 0x3fff && second < 0x1000; // documentation
};

/** Longest URL that is taken, in characters. */
const MAX_URL_CHARS = 2_048;

/**
 * Says why a URL must not be called, or null when it may.
 * @param allowPrivate development: `http:` and private addresses are allowed too
 * @returns words that follow "expected" badly but stand alone well, such as "must not contain a user name or password"
 */
export const checkOutboundUrl = (url: string, allowPrivate: boolean): string | null => {
  if (url.length > MAX_URL_CHARS) return `must have at most ${MAX_URL_CHARS} characters`;
  const parsed = URL.parse(url);
  if (parsed === null) return "must be an absolute https:// URL";
  const { protocol, hostname } = parsed;
  if (protocol !== "https:" && !(allowPrivate && protocol === "http:")) return "must be an https:// URL";
  if (parsed.username !== "" || parsed.password !== "") return "must not contain a user name or password";
  if (hostname === "") return "must name a host";
  if (allowPrivate) return null;
  // `URL` has already turned decimal, octal, hex and short forms of an IPv4 address into the dotted one.
  if (hostname.startsWith("[")) {
    return isPrivateV6(hostname.slice(1, -1)) ? "must not point at a private, local or reserved address" : null;
  }
  const name = hostname.replace(/\.+$/, "");
  if (/^\d+\.\d+\.\d+\.\d+$/.test(name)) {
    return isPrivateV4(v4Number(name)) ? "must not point at a private, local or reserved address" : null;
  }
  if (!name.includes(".")) return "must name a public host";
  const isPrivate = PRIVATE_NAMES.some((suffix) => name === suffix || name.endsWith(`.${suffix}`));
  return isPrivate ? "must name a public host" : null;
};
