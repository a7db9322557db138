// The list of all pages opens where the reader is.
const list = document.querySelector(".sidebar-scroll");
const here = list?.querySelector(".current-page");
if (here) {
  const below = here.getBoundingClientRect().bottom - list.getBoundingClientRect().bottom;
  if (below > 0) list.scrollTop += below + list.clientHeight / 3;
}
