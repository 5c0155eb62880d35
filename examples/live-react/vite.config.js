const target = process.env.RECOLLECT ?? 'http://localhost:57602'

export default {
  server: {
    proxy: { '/api': target, '/token': target, '/socket.io': { target, ws: true } },
  },
}
