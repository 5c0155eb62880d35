import { connect } from '/client/index.js'
import uPlot from '/uplot/uPlot.esm.js'

const element = (id) => document.getElementById(id)
const client = connect()
const posts = client.collection('posts')
const list = posts.sort('id').live()
const explain = ({ status, message }) => alert(status === 412 ? 'Somebody else has changed this title.' : message)

client.onState(({ state }) => {
  element('state').textContent = state
  element('login').hidden = state !== 'refused'
})
element('login').onsubmit = (event) => {
  event.preventDefault()
  client.login(element('name').value, element('password').value).catch(explain)
}

list.onChange(({ entered, updated, left }) => {
  for (const { id } of left) inputs.get(id).parentElement.remove()
  for (const post of entered) addPost(post)
  for (const { item } of updated) if (inputs.get(item.id) !== document.activeElement) show(item)
  draw().catch(explain)
})

const inputs = new Map()
const show = ({ id, title }) => Object.assign(inputs.get(id), { value: title ?? '' })
function addPost(post) {
  const input = Object.assign(document.createElement('input'), { ariaLabel: `title of post ${post.id}` })
  const seen = {}
  input.onfocus = () => Object.assign(seen, { ifUnchangedSince: list.position })
  input.onchange = () => {
    posts.item(post.id).patch({ title: input.value }, seen).catch(explain)
    input.blur()
  }
  input.onblur = () => show(list.items.find(({ id }) => id === post.id) ?? post)
  inputs.set(post.id, input)
  element('posts').appendChild(document.createElement('li')).append(input)
  show(post)
}

const views = { label: 'views', stroke: 'teal', fill: 'lightcyan' }
const scales = { y: { range: [0, null] } }
const chart = new uPlot({ width: 480, height: 200, scales, series: [{}, views] }, [[], []], element('chart'))
async function draw() {
  const { items } = await posts.where({ day_exists: true }).aggregate(['sum(views) as views'], { groupBy: ['day'] })
  chart.setData([items.map(({ day }) => Date.parse(day) / 1000), items.map((row) => row.views)])
}
