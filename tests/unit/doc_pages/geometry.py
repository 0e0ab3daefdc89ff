"""What the programs of the page on trees and meshes take for granted: nothing."""
