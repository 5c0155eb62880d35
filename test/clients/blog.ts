/** Data in the form of json-server's examples. The last post has an id of text with a character that URLs escape. */
export const BLOG = {
  posts: [
    { id: 1, title: 'first', views: 100, author: { name: 'ada' } },
    { id: 2, title: 'Second', views: 300, author: { name: 'bob' } },
    { id: 3, title: 'third', views: 200, author: { name: 'ada' } },
    { id: 'E1:09/4', title: 'fourth', views: 400, author: { name: 'cleo' } },
  ],
  comments: [
    { id: 1, body: 'a comment', postId: 1 },
    { id: 2, body: 'another', postId: 1 },
    { id: 3, body: 'a third', postId: 2 },
  ],
} as const

/** The setting with which responses have the form of json-server's. */
export const AS_JSON_SERVER = ['--Api.Compatibility', 'json-server'] as const
