import { formatPath, type Path, parsePath } from '../../json/paths.ts'
import { isFunctionOfField } from '../../query/aggregate/aggregation.ts'

/** The path of a column that is read: a dotted path, or one name such as `avg(data.temperature)`. */
export function pathOfColumn(name: string): Path {
  return isPlain(name) ? [name] : parsePath(name)
}

/** The name of a column of rows, so that it is read as the same member again. */
export function columnOfRows(path: Path): string {
  const [name = ''] = path
  return isPlain(name) ? name : formatPath(path)
}

/** The dots of such a name are those of its field. */
function isPlain(name: string): boolean {
  return !name.includes('\\') && isFunctionOfField(name)
}
