// What TensorBoard imports: the plugin has a page of its own, so its frame goes there.
export function render(): void {
  const here = import.meta.url
  window.location.replace(new URL('./index.html', here).href)
}
