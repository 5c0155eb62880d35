import axios, { type AxiosRequestConfig, type AxiosResponse } from 'axios'

const [, , baseURL = '', apiKey = ''] = process.argv

/** The form of `filters` and of lists that the document gives: a parameter for each member, commas between elements. */
function serialize({ filters, ...others }: Readonly<Record<string, unknown>>): string {
  const parameters = Object.entries({ ...(filters as object | undefined), ...others })
  return String(new URLSearchParams(parameters.map(([name, value]) => [name, String(value)])))
}

const client = axios.create({
  baseURL,
  paramsSerializer: { serialize },
  headers: { 'X-API-KEY': apiKey },
  validateStatus: () => true,
})

/** The function with which orval's client sends each request. A list that patches is a JSON Patch. */
export function request<T>(config: AxiosRequestConfig): Promise<AxiosResponse<T>> {
  const isJsonPatch = config.method === 'PATCH' && Array.isArray(config.data)
  const headers = { ...config.headers, ...(isJsonPatch && { 'Content-Type': 'application/json-patch+json' }) }
  return client.request<T>({ ...config, headers })
}
