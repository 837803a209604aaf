// Loaded active-memory tiles with their latest pictures.
import type { Bands } from '../../api/payloads'
import type { TileKey } from '../../lib/tiles'
import { TileCache } from '../tileCache'
import type { BlockColors } from './colors'
import { columnsOf, type Heights, paintTile } from './layout'

export const COLUMNS = 512
/** Bytes of one block in all lists, and of one column. */
const BLOCK_BYTES = 60
const COLUMN_BYTES = 32
/** Pictures are made anew when they are wanted again. */
const PICTURES = 24

/** A picture of a tile: for which heights and colours it was made. */
export interface TilePicture {
  canvas: HTMLCanvasElement
  heights: Heights
  colors: BlockColors
}

export class BlockTileStore extends TileCache<Bands, Bands> {
  private readonly pictures = new Map<Bands, TilePicture>()

  protected make(_key: TileKey, tile: Bands): Bands {
    return tile
  }

  protected sizeOf(tile: Bands): number {
    return tile.block.length * BLOCK_BYTES + columnsOf(tile) * COLUMN_BYTES + 2000
  }

  /** The last picture of a tile, and whether it is of these heights and colours. */
  pictureOf(tile: Bands): TilePicture | undefined {
    const picture = this.pictures.get(tile)
    if (picture) {
      this.pictures.delete(tile)
      this.pictures.set(tile, picture)
    }
    return picture
  }

  paint(tile: Bands, height: number, heights: Heights, colors: BlockColors): TilePicture {
    const canvas = this.pictures.get(tile)?.canvas ?? document.createElement('canvas')
    canvas.width = Math.max(1, columnsOf(tile))
    canvas.height = height
    const context = canvas.getContext('2d', { alpha: false })
    if (context) {
      const image = context.createImageData(canvas.width, height)
      paintTile(tile, new Uint32Array(image.data.buffer), height, heights, colors.paintsOf(tile))
      context.putImageData(image, 0, 0)
    }
    const picture = { canvas, heights, colors }
    this.pictures.set(tile, picture)
    for (const old of this.pictures.keys()) {
      if (this.pictures.size <= PICTURES) break
      this.pictures.delete(old)
    }
    return picture
  }
}
