/** A trigger's settings, as the API's schema lets them through and the `config` column keeps them. */
import type { OnBusy } from "../store/begin-request.ts";
import type { Filter, OwnEvents } from "./filters.ts";
import type { Verification } from "./verification.ts";

export type Json = Readonly<Record<string, unknown>>;

/** An HTTP call that a trigger makes: its address, headers and body are templates. */
export interface TriggerCall {
  readonly url: string;
  /** Values are literal: they may be secrets. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Text is one template; of anything else every string in it is one. Absent for a report of the run. */
  readonly body?: unknown;
}

/** What the sender is answered with. */
export interface TriggerResponse {
  readonly status: 200 | 201 | 202 | 204;
  /** Sent as it is. */
  readonly body?: string | undefined;
}

export interface TriggerConfig {
  /** The settings of the sessions that it makes: a request to create one, without its key. */
  readonly session: Json;
  readonly budget?: { readonly max_usd: number } | undefined;
  readonly session_key?: string | undefined;
  readonly prompt?: string | undefined;
  readonly on_busy: OnBusy;
  readonly filters: readonly Filter[];
  readonly own_events: OwnEvents;
  /** Deliveries of one session within so many s become one turn. */
  readonly debounce_seconds: number;
  /** Of webhooks. */
  readonly verification?: Verification | undefined;
  readonly response?: TriggerResponse | undefined;
  readonly ack?: TriggerCall | undefined;
  readonly reply?: TriggerCall | undefined;
  /** Of cron triggers. */
  readonly schedule?: { readonly cron: string; readonly time_zone: string } | undefined;
  readonly payload?: Json | undefined;
}
