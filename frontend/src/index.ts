// TensorBoard's entry point: opens the page in its frame.
export function render(): void {
  const here = import.meta.url
  window.location.replace(new URL('./index.html', here).href)
}
