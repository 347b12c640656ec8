import { describe, expect, it } from "vitest";
import { checkOutboundUrl } from "../../../src/protocol/outbound-url.ts";

const PRIVATE = "must not point at a private, local or reserved address";
const NAME = "must name a public host";

describe("checkOutboundUrl", () => {
  it.each([
    "https://example.com/",
    "https://example.com:8443/path?query=1#hash",
    "https://sub.domain.example.co.uk/",
    "https://xn--mnchen-3ya.de/",
    "https://münchen.de/",
    "https://8.8.8.8/",
    "https://172.15.255.255/",
    "https://172.32.0.1/",
    "https://100.128.0.1/",
    "https://192.167.1.1/",
    "https://[2606:4700:4700::1111]/",
    "https://[64:ff9b::8.8.8.8]/",
    "https://localhost.example.com/",
    "https://internal.example.com/",
    "https://local-news.com/",
  ])("allows %s", (url) => {
    expect(checkOutboundUrl(url, false)).toBeNull();
  });

  it.each<[string, string]>([
    ["http://example.com/", "must be an https:// URL"],
    ["ftp://example.com/", "must be an https:// URL"],
    ["file:///etc/passwd", "must be an https:// URL"],
    ["javascript:alert(1)", "must be an https:// URL"],
    ["data:text/plain,hi", "must be an https:// URL"],
    ["gopher://example.com/", "must be an https:// URL"],
    ["//example.com/", "must be an absolute https:// URL"],
    ["/relative", "must be an absolute https:// URL"],
    ["", "must be an absolute https:// URL"],
    ["https://", "must be an absolute https:// URL"],
    ["https://exa mple.com/", "must be an absolute https:// URL"],
    ["https://user@example.com/", "must not contain a user name or password"],
    ["https://:password@example.com/", "must not contain a user name or password"],
    ["https://example.com@127.0.0.1/", "must not contain a user name or password"],
    [`https://example.com/${"x".repeat(2_048)}`, "must have at most 2048 characters"],
    // names
    ["https://localhost/", NAME],
    ["https://LOCALHOST./", NAME],
    ["https://app.localhost/", NAME],
    ["https://printer.local/", NAME],
    ["https://metadata.google.internal/", NAME],
    ["https://db.internal/", NAME],
    ["https://router.lan/", NAME],
    ["https://nas.home.arpa/", NAME],
    ["https://intranet/", NAME],
    ["https://kubernetes.default.svc.cluster.local/", NAME],
    // IPv4
    ["https://0.0.0.0/", PRIVATE],
    ["https://10.1.2.3/", PRIVATE],
    ["https://100.64.0.1/", PRIVATE],
    ["https://100.100.100.200/", PRIVATE],
    ["https://127.0.0.1/", PRIVATE],
    ["https://127.255.255.254:8443/", PRIVATE],
    ["https://127.0.0.1./", PRIVATE],
    ["https://169.254.169.254/latest/meta-data/", PRIVATE],
    ["https://168.63.129.16/", PRIVATE],
    ["https://172.16.0.1/", PRIVATE],
    ["https://172.31.255.255/", PRIVATE],
    ["https://192.168.1.1/", PRIVATE],
    ["https://198.18.0.1/", PRIVATE],
    ["https://224.0.0.1/", PRIVATE],
    ["https://255.255.255.255/", PRIVATE],
    // other spellings of 127.0.0.1 and 169.254.169.254
    ["https://2130706433/", PRIVATE],
    ["https://0x7f000001/", PRIVATE],
    ["https://0x7f.0.0.1/", PRIVATE],
    ["https://017700000001/", PRIVATE],
    ["https://0177.0.0.1/", PRIVATE],
    ["https://127.1/", PRIVATE],
    ["https://0/", PRIVATE],
    ["https://2852039166/", PRIVATE],
    ["https://0xa9.0xfe.0xa9.0xfe/", PRIVATE],
    ["https://①②⑦.⓪.⓪.①/", PRIVATE],
    ["https://127。0。0。1/", PRIVATE],
    ["https://%31%32%37.0.0.1/", PRIVATE],
    // IPv6
    ["https://[::]/", PRIVATE],
    ["https://[::1]/", PRIVATE],
    ["https://[0:0:0:0:0:0:0:1]:8443/", PRIVATE],
    ["https://[fe80::1]/", PRIVATE],
    ["https://[fc00::1]/", PRIVATE],
    ["https://[fd12:3456:789a::1]/", PRIVATE],
    ["https://[fd00:ec2::254]/", PRIVATE],
    ["https://[fec0::1]/", PRIVATE],
    ["https://[ff02::1]/", PRIVATE],
    ["https://[::ffff:127.0.0.1]/", PRIVATE],
    ["https://[::ffff:8.8.8.8]/", PRIVATE],
    ["https://[::127.0.0.1]/", PRIVATE],
    ["https://[64:ff9b::127.0.0.1]/", PRIVATE],
    ["https://[64:ff9b:1::1]/", PRIVATE],
    ["https://[2001::1]/", PRIVATE],
    ["https://[2001:db8::1]/", PRIVATE],
    ["https://[2002:7f00:1::]/", PRIVATE],
    ["https://[2002:c0a8:101::1]/", PRIVATE],
    ["https://[100::1]/", PRIVATE],
  ])("refuses %s", (url, reason) => {
    expect(checkOutboundUrl(url, false)).toBe(reason);
  });

  it("allows http and private addresses in development, and still no credentials", () => {
    expect([
      checkOutboundUrl("http://127.0.0.1:3000/", true),
      checkOutboundUrl("https://[::1]/", true),
      checkOutboundUrl("http://tools.internal/", true),
      checkOutboundUrl("ftp://127.0.0.1/", true),
      checkOutboundUrl("http://user:secret@127.0.0.1/", true),
    ]).toEqual([null, null, null, "must be an https:// URL", "must not contain a user name or password"]);
  });
});
