import type { Command } from '../commands/command.ts'
import type { JsonObject } from '../json/value.ts'
import { creation, type HomeWrite } from './home-write.ts'
import { HOUR_MS, localTime, type Present } from './readings.ts'

/** The posts and comments of two authors, and their mistakes. */
export function postsOf(present: Present): readonly HomeWrite[] {
  const edits = EDITS.map(([daysAgo, time, actor, command]) => {
    return { ms: localTime(daysAgo, time, present), actor, command }
  })
  return [...edits, ...testOf(present), ...mistakeOf(present)]
}

type Author = 'miranda' | 'joonas'

const HEATING: JsonObject = { title: 'Heating less at night', author: 'miranda', status: 'published' }
const DROP = 'From 22 to 6 o’clock the heating rests. The living room loses two degrees'
const DROP_AND_RISE = `${DROP}, and is warm again at half past seven.`

/** The edits of earlier days, in local time. */
const EDITS: readonly (readonly [daysAgo: number, time: string, actor: Author, command: Command])[] = [
  [
    13,
    '19:40:12',
    'miranda',
    put('posts', 1, {
      title: 'Six sensors for an old house',
      author: 'miranda',
      status: 'draft',
      text: 'There is a thermometre in every room now, and one outsde.',
    }),
  ],
  [
    13,
    '19:52:47',
    'miranda',
    patch('posts', 1, { text: 'There is a thermometer in every room now, and one outside.' }),
  ],
  [13, '20:15:03', 'miranda', patch('posts', 1, { status: 'published' })],
  [12, '08:10:31', 'joonas', comment(1, 'joonas', 'The one in the cellar hangs behind the door.')],
  [
    11,
    '18:30:20',
    'joonas',
    post('posts', {
      title: 'The bathroom at seven',
      author: 'joonas',
      status: 'published',
      text: 'Somebody showers, and the humidty doubles within minutes.',
    }),
  ],
  [11, '18:41:55', 'joonas', patch('posts', 2, { text: 'Somebody showers, and the humidity doubles within minutes.' })],
  [10, '21:05:16', 'miranda', comment(2, 'miranda', 'Open the window, please.')],
  [9, '20:20:40', 'miranda', patch('posts', 1, { title: 'What six sensors say about an old house' })],
  [
    6,
    '19:00:09',
    'miranda',
    post('posts', { ...HEATING, status: 'draft', text: `${DROP.replace('loses', 'looses')}.` }),
  ],
  [6, '19:25:33', 'miranda', patch('posts', 3, { text: `${DROP}.` })],
  [5, '20:00:50', 'miranda', patch('posts', 3, { status: 'published' })],
  [4, '07:50:04', 'joonas', comment(3, 'joonas', 'And the bathrom?')],
  [4, '07:51:28', 'joonas', patch('comments', 2, { text: 'And the bathroom?' })],
  [2, '12:10:37', 'miranda', patch('posts', 3, { text: DROP_AND_RISE })],
]

const TEST_DAY = 8
const TEST_MAC = 'D4:2C:1E:8A:50:FF'

/** A seventh sensor is tried out, and all that it left is deleted. */
function testOf(present: Present): readonly HomeWrite[] {
  const on = (time: string, commandAt: (ms: number) => HomeWrite['command']): HomeWrite => {
    const ms = localTime(TEST_DAY, time, present)
    return { ms, actor: 'joonas', command: commandAt(ms) }
  }
  const readings = ['10:05:30', '10:15:31', '10:25:30', '10:35:32'].map((time, index) =>
    on(time, (ms) => {
      const data = { temperature: 20 + index, humidity: 50, pressure: 1000, battery: 100 }
      return creation({ mac: TEST_MAC, timestamp: new Date(ms).toISOString(), data })
    }),
  )
  return [
    ...readings,
    on('11:02:10', () => ({ type: 'DeleteReadings', mac: TEST_MAC })),
    on('11:02:31', () => ({ type: 'DeleteItem', collection: 'sensors', key: TEST_MAC })),
  ]
}

/** A post is deleted by mistake, and brought back an hour later. */
function mistakeOf({ ms }: Present): readonly HomeWrite[] {
  const ago = (hours: number, actor: Author, command: HomeWrite['command']): HomeWrite => ({
    ms: Math.floor(ms - hours * HOUR_MS),
    actor,
    command,
  })
  return [
    ago(20.3, 'joonas', patch('posts', 2, { title: 'Why the bathroom is damp at seven' })),
    ago(5.2, 'joonas', comment(1, 'joonas', 'It has been silent for two days.')),
    ago(3.13, 'joonas', { type: 'DeleteItem', collection: 'posts', key: '3' }),
    ago(2.07, 'miranda', put('posts', 3, { ...HEATING, text: DROP_AND_RISE })),
    ago(0.71, 'miranda', patch('posts', 3, { title: 'Heating less at night saves a tenth' })),
  ]
}

function post(collection: string, item: JsonObject): Command {
  return { type: 'CreateItem', collection, item }
}

function comment(postId: number, author: Author, text: string): Command {
  return post('comments', { postId, author, text })
}

function put(collection: string, id: number, item: JsonObject): Command {
  return { type: 'ReplaceItem', collection, key: String(id), item }
}

function patch(collection: string, id: number, document: JsonObject): Command {
  return { type: 'PatchItem', collection, key: String(id), patch: { type: 'merge', document } }
}
