/** The home's appsettings.json. */
export const HOME_SETTINGS = `${JSON.stringify(
  {
    Api: { UpsertOnPut: true },
    Collections: {
      sensordatas: { Time: 'timestamp', Indexes: ['mac,timestamp'], Latest: { in: 'sensors', by: 'mac' } },
    },
  },
  null,
  2,
)}\n`

/** The paths of the home's data file and of its settings. */
export function homeIn(directory: string): { readonly file: string; readonly settings: string } {
  return { file: `${directory}/home.json`, settings: `${directory}/appsettings.json` }
}
