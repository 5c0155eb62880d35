/** Headers that make the fast front leave a request to Koa. */
export const THROUGH_KOA = { Origin: 'http://localhost' }

/** The same, as a header line without its end. */
export const KOA_LINE = 'Origin: http://localhost'
