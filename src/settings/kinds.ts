import { isArray, isObject, type JsonValue } from '../json/value.ts'
import { COLLECTIONS_FORM, type CollectionSettings, readCollection } from './collections.ts'

/** The description of a setting. */
export interface Key<Value> {
  /** The type as --help shows it. */
  readonly type: string
  readonly default: Value
  readonly text: string
  /** Replaces a default that is too long for a table. */
  readonly shownDefault?: string
  /** Describes valid values, for error messages. */
  readonly expects: string
  /** The value must not be shown. */
  readonly isSecret?: true
  /** Undefined for an invalid value. `isText`: the value comes from a flag or the environment. */
  readonly read: (value: JsonValue, isText: boolean) => Value | undefined
}

export function boolean(text: string): Key<boolean> {
  return {
    type: 'boolean',
    default: false,
    text,
    expects: 'true or false',
    read: (value, isText) => {
      const read = isText && (value === 'true' || value === 'false') ? value === 'true' : value
      return typeof read === 'boolean' ? read : undefined
    },
  }
}

export function integer<Default extends number | undefined>(
  initial: Default,
  least: number,
  text: string,
  most = Number.MAX_SAFE_INTEGER,
): Key<number | Default> {
  return {
    type: 'integer',
    default: initial,
    text,
    expects: most < Number.MAX_SAFE_INTEGER ? `an integer from ${least} to ${most}` : `an integer of at least ${least}`,
    read: (value, isText) => {
      const read = isText && typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value
      return typeof read === 'number' && Number.isSafeInteger(read) && read >= least && read <= most ? read : undefined
    },
  }
}

export function choice<Choice extends string>(initial: Choice, choices: readonly Choice[], text: string): Key<Choice> {
  return {
    type: choices.join('|'),
    default: initial,
    text,
    expects: `one of ${choices.join(', ')}`,
    read: (value) => choices.find((one) => one === value),
  }
}

/** An array of texts, or texts separated by commas. */
export function texts<Default extends readonly string[] | undefined>(
  initial: Default,
  text: string,
): Key<readonly string[] | Default> {
  return {
    type: 'list',
    default: initial,
    text,
    expects: 'a list of texts, none of which is empty',
    read: (value) => {
      const list = typeof value === 'string' ? value.split(',').map((piece) => piece.trim()) : value
      return isArray(list) && list.every((one) => typeof one === 'string' && one !== '')
        ? (list as string[])
        : undefined
    },
  }
}

/** HTTP methods, in capital letters. */
export function methods(initial: readonly string[], text: string): Key<readonly string[]> {
  return {
    ...texts(initial, text),
    expects: 'a list of GET, POST, PUT, PATCH and DELETE',
    read: (value, isText) => {
      const list = texts(initial, text).read(value, isText)
      return list?.every((one) => ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].includes(one)) ? list : undefined
    },
  }
}

export function probability(initial: number, text: string): Key<number> {
  return {
    type: 'number',
    default: initial,
    text,
    expects: 'a number from 0 to 1, or a percentage up to 100',
    read: (value, isText) => {
      const read = isText && typeof value === 'string' && /^[\d.]+$/.test(value) ? Number(value) : value
      if (typeof read !== 'number' || !(read >= 0 && read <= 100)) return undefined
      return read > 1 ? read / 100 : read
    },
  }
}

export function text(initial: string, text: string, shownDefault?: string): Key<string> {
  return {
    type: 'text',
    default: initial,
    text,
    ...(shownDefault !== undefined && { shownDefault }),
    expects: 'text in one line',
    read: (value) => (typeof value === 'string' && !/[\r\n]/.test(value) ? value : undefined),
  }
}

/** The name of a field that stands for itself in paths, filters and URLs. */
export function fieldName(initial: string, text: string): Key<string> {
  return {
    type: 'text',
    default: initial,
    text,
    expects: 'a name of 1 to 64 letters, digits, _, -, $ or @ that begins with no digit',
    read: (value) => {
      const isName = typeof value === 'string' && /^[A-Za-z_$@][\w$@-]{0,63}$/.test(value) && value !== '__proto__'
      return isName ? value : undefined
    },
  }
}

export function secret(text: string): Key<string | undefined> {
  return {
    type: 'text',
    default: undefined,
    text,
    expects: 'text',
    isSecret: true,
    read: (value) => (typeof value === 'string' && value !== '' ? value : undefined),
  }
}

/** An array of objects, or its JSON as text. */
export function objects(text: string): Key<readonly JsonValue[]> {
  return {
    type: 'json',
    default: [],
    text,
    expects: 'an array of objects',
    isSecret: true,
    read: (value, isText) => {
      const list = isText ? parsed(String(value)) : value
      return isArray(list) && list.every(isObject) ? list : undefined
    },
  }
}

/** Node's timers end at once for a longer delay. */
const MOST_SECONDS = Math.floor((2 ** 31 - 1) / 1000)

export function secondsOrOff(initial: number, text: string): Key<number | 'off'> {
  return {
    type: 'seconds|off',
    default: initial,
    text,
    expects: `a number of seconds up to ${MOST_SECONDS} (24 days), or off`,
    read: (value, isText) => (value === 'off' ? value : integer(initial, 0, text, MOST_SECONDS).read(value, isText)),
  }
}

/** A range of hours in minutes of the day; it may include midnight. */
export function hours(text: string): Key<{ readonly from: number; readonly until: number } | undefined> {
  return {
    type: 'hours',
    default: undefined,
    text,
    expects: 'hours such as 03:00-05:00',
    read: (value) => {
      const [, ...numbers] = /^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)$/.exec(String(value)) ?? []
      const [fromHour = 0, fromMinute = 0, untilHour = 0, untilMinute = 0] = numbers.map(Number)
      const [from, until] = [60 * fromHour + fromMinute, 60 * untilHour + untilMinute]
      return from === until || until > MINUTES_A_DAY ? undefined : { from, until }
    },
  }
}

/** Settings of collections, by their names. */
export function collections(text: string): Key<Readonly<Record<string, CollectionSettings>> | undefined> {
  return {
    type: 'json',
    default: undefined,
    text,
    expects: COLLECTIONS_FORM,
    read: (value, isText) => {
      const all = isText ? parsed(String(value)) : value
      if (!isObject(all)) return undefined
      const read = Object.entries(all).map(([name, one]) => [name, readCollection(one as JsonValue)] as const)
      return read.every(([, one]) => one) ? (Object.fromEntries(read) as Record<string, CollectionSettings>) : undefined
    },
  }
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue
  } catch {
    return undefined
  }
}

const MINUTES_A_DAY = 24 * 60
